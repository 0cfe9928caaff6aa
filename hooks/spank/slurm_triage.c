/*
 * Optional SPANK plugin: sbatch --triage=on|off|watch, or the same in SLURM_TRIAGE where sbatch is called.
 *
 * The wish travels as SLURM_TRIAGE in the job's control environment, which Slurm hands to every prolog and epilog of the
 * job as SPANK_SLURM_TRIAGE. Nothing else happens here: no file, no network, no work on the nodes.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

SPANK_PLUGIN(slurm_triage, 1)

static const char *const wishes[] = {"on", "off", "watch"};
static const char *wish; /* one of the above, or NULL */

static const char *known_wish(const char *text)
{
    for (size_t i = 0; text != NULL && i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        if (strcmp(text, wishes[i]) == 0)
            return wishes[i];
    }
    return NULL;
}

static int take_wish(int value, const char *argument, int remote)
{
    (void) value;
    (void) remote;
    wish = known_wish(argument);
    if (wish != NULL)
        return 0;
    slurm_error("--triage: use on, off or watch");
    return -1;
}

static struct spank_option option = {
    "triage", "on|off|watch", "report on this job when it ends (on), not at all (off), or also while it runs (watch)",
    1, 0, take_wish,
};

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    (void) argc;
    (void) argv;
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
    case S_CTX_REMOTE:
        return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
    default:
        return 0;
    }
}

/* In sbatch, salloc and srun, after the options have been read and before the job is submitted. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    (void) argc;
    (void) argv;
    if (spank_context() == S_CTX_REMOTE)
        return 0;
    if (wish == NULL)
        wish = known_wish(getenv("SLURM_TRIAGE"));
    if (wish == NULL)
        return 0;
    return spank_job_control_setenv(spank, "SLURM_TRIAGE", wish, 1) == ESPANK_SUCCESS ? 0 : -1;
}
