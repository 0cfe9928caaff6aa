# Perl with warnings, die inside eval, and a locale that does not exist.
# needs: perl
export LC_ALL=de_XX.UTF-8 LANG=de_XX.UTF-8
cat > job.pl <<'P'
use strict; use warnings;
my ($ok, $failed) = (0, 0);
for my $i (1 .. 12) {
    eval { die "record $i is bad\n" if $i % 5 == 0; $ok++; 1 } or do { $failed++; warn "skipped: $@" };
}
my $undef; my $text = "value: " . $undef . "\n";
print "ok $ok, failed $failed\n";
P
perl job.pl
