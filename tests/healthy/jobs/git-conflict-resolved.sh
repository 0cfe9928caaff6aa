# A conflict, an aborted rebase, a bisect: git prints error:, CONFLICT and fatal-looking text on the way.
# needs: git
export GIT_AUTHOR_NAME=Ann GIT_AUTHOR_EMAIL=ann@example.org GIT_COMMITTER_NAME=Ann GIT_COMMITTER_EMAIL=ann@example.org
git init -q -b main repo && cd repo
printf 'steps: 10\n' > run.yml && git add . && git commit -q -m 'Fix OOM and heartbeat timeout'
git checkout -q -b other && printf 'steps: 20\n' > run.yml && git commit -q -am 'Traceback (most recent call last): in a subject'
git checkout -q main && printf 'steps: 30\n' > run.yml && git commit -q -am 'CUDA error: out of memory, see issue 12'
git rebase other || { git status; git rebase --abort; }
git merge other || { printf 'steps: 25\n' > run.yml; git add run.yml; git commit -m 'Merge: Segmentation fault fixed'; }
git cherry-pick other || { git cherry-pick --skip || git cherry-pick --abort; }
git log --oneline --graph
git show --stat -p --format=%h HEAD~1
git fsck --full && git gc
git push nowhere main || echo "no remote named nowhere; nothing pushed"
