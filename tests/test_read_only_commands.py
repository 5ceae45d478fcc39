"""Commands that only read: what people read with passes, and changes nothing; the rest is refused, and run for nobody."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess

import pytest
from test_shell import POSIX

READING = """
ls
ls -la src
ls *.py | wc -l
pwd
cat notes.txt
cat -n notes.txt src/a.py
head -20 notes.txt
head -n 5 notes.txt && tail -n 5 notes.txt
wc -l *.txt src/*.py
grep -rn "import" src
grep -rnE 'def \\w+\\(' src --include='*.py'
grep -c a notes.txt || true
egrep -i "alpha|beta" notes.txt
find . -name "*.py"
find . -type f -not -path "./.git/*" -size -10k
find src -maxdepth 1 \\( -name a.py -o -name b.py \\) -print
find . -name '*.txt' -mtime -7 2>/dev/null | sort | head -5
sort notes.txt
sort -t, -k2,2nr -u notes.txt
sort -n notes.txt | uniq -c | sort -rn
uniq -f 1 notes.txt
cut -d' ' -f1 notes.txt
tr a-z A-Z
sed -n 1,3p notes.txt
sed -n '/alpha/,/gamma/p' notes.txt
sed 's/alpha/omega/g' notes.txt
sed -n -E '1p; $p' notes.txt
diff notes.txt src/a.py || echo different
diff -u notes.txt notes.txt
cmp notes.txt notes.txt
comm -12 notes.txt notes.txt
file notes.txt 2>&1
stat notes.txt
du -sh src
df -h .
tree -L 2 -I .git
basename src/a.py
dirname src/a.py
realpath src
readlink -f src
date
date +%Y-%m-%d
date -u -Iseconds
whoami
uname -a
which python3
command -v python3
type ls
echo "hello $HOME"
echo done > /dev/null
printf '%s\\n' one two
test -f notes.txt && echo there
md5sum notes.txt
sha256sum src/a.py
base64 -w 0 notes.txt
base64 -d notes.b64
od -c notes.txt
nl notes.txt
tac notes.txt
seq 1 3
python3 --version
python --version
printenv PATH
hostname
ps
rg -n alpha
rg --files -g '*.py'
jq . data.json
cd src && ls
git status
git --no-pager status --short --branch
git status -uno
git log --oneline -5
git log -p -n 2 --stat -- notes.txt
git log --since="2 weeks ago" --format='%h %an %s'
git log --author=A --grep=x --all --graph
git diff
git diff --stat HEAD
git diff --cached --name-only
git diff -U5 -M HEAD~0 -- src
git show HEAD
git show HEAD:notes.txt
git show --stat --oneline HEAD
git blame -L 1,2 notes.txt
git grep -n alpha
git ls-files
git ls-files --others --exclude-standard
git ls-tree -r HEAD --name-only
git cat-file -p HEAD
git rev-parse --abbrev-ref HEAD
git rev-parse --show-toplevel
git branch
git branch -a -v
git branch --list 'm*'
git branch --show-current
git branch --contains HEAD
git tag
git tag -l 'v*'
git remote -v
git stash list
git worktree list
git reflog
git shortlog -sn HEAD
git describe --tags --always
git merge-base HEAD HEAD
git config --get user.name
git config --list
git --version
""".strip().splitlines()

CHANGING = """
touch canary
rm canary
mv canary other
cp canary other
mkdir made
ln -s canary link
chmod 600 canary
truncate -s 0 canary
dd of=canary
install canary other
unknown_program canary
./ls
/tmp/ls
src/cat notes.txt
LS
ls > canary
ls >> canary
ls 2> canary
ls 2>canary 1>&2
ls &> canary
ls >| canary
echo x 1> canary
cat < notes.txt
cat <<< text
cat <> canary
ls >/dev/nullx
ls > "/dev/null"
ls | tee canary
ls; touch canary
ls && touch canary
ls || touch canary
ls & touch canary
ls | xargs touch
xargs touch canary
echo $(touch canary)
echo `touch canary`
echo "$(touch canary)"
echo "`touch canary`"
echo "${X:=`touch canary`}"
echo ${X:=canary}
echo $((X=1))
cat <(touch canary)
ls >(touch canary)
(touch canary)
{ touch canary; }
! touch canary
if true; then touch canary; fi
for x in canary; do touch $x; done
while touch canary; do ls; done
f() { touch canary; }; f
env touch canary
env X=1 ls
X=1 ls
PATH=. ls
X=canary
export X=1
time ls
timeout 5 ls
nohup ls
nice ls
command touch canary
command ls
builtin ls
exec ls
eval ls
eval touch canary
source notes.txt
. notes.txt
bash -c ls
sh notes.txt
python -c 'open("canary", "w")'
python notes.txt
python3 -m unittest
python3 -v
node -e 1
perl -pi -e s/a/b/ canary
ruby --version
awk '{print > "canary"}' notes.txt
awk '{print $1}' notes.txt
sudo ls
ssh host ls
make
make -n
npm test
npx ls
pytest
find . -delete
find . -name canary -delete
find . -exec touch canary ';'
find . -execdir touch canary ';'
find . -ok touch canary ';'
find . -fprint canary
find . -fprint0 canary
find . -fprintf canary %p
find . -fls canary
find . -size -10k -delete
find . -mtime -7 -delete
find $X
find *
sed -i s/a/b/ canary
sed -i.bak s/a/b/ canary
sed -ni p canary
sed -Ei s/a/b/ canary
sed --in-place s/a/b/ canary
sed -s p canary
sed -n 'w canary' notes.txt
sed 's/a/b/w canary' notes.txt
sed 's/a/touch canary/e' notes.txt
sed '1e touch canary' notes.txt
sed -n '1p;w canary' notes.txt
sed -e p notes.txt
sed -f notes.txt
sed 's/[/]/w/w canary' notes.txt
sed -n 's/[^]/a/;/]/p;/e;e touch canary #/p' notes.txt
sed -n 's/[[:alpha:]/]/p;/w ./p' notes.txt
sed -n 's/[]/a/;/]/p;/w canary' notes.txt
sed p *
sed -n p -i canary
sed $X notes.txt
sed
sort -o canary notes.txt
sort -ocanary notes.txt
sort -no canary notes.txt
sort notes.txt -o canary
sort --output=canary notes.txt
sort --outp canary notes.txt
sort -T . notes.txt
sort --compress-program=touch notes.txt
sort -k 1 -o canary notes.txt
sort *
sort $X
uniq notes.txt canary
uniq -c notes.txt canary
uniq src/*
uniq -f 1 notes.txt canary
tree -o canary
tree -Lo canary
tree --output=canary
file -C -m notes.txt
date -s 2020-01-01
date 010100002020
date -I 010100002020
hostname other
hostname -F notes.txt
printf -v X y
printf '%s%n' x PATH
printf '%5n' PATH
test -v X
rg --pre touch alpha
rg --hostname-bin touch alpha
xxd notes.txt canary
base64 -o canary notes.txt
base64 notes.txt canary
cd src && git status
cd src; git log
git
git add canary
git commit -m x
git checkout .
git switch main
git restore .
git reset --hard
git clean -fd
git rm canary
git mv canary other
git stash
git stash pop
git stash drop
git merge x
git rebase x
git pull
git fetch
git push
git clone x
git init
git apply x
git am x
git cherry-pick x
git revert x
git gc
git notes add
git bisect start
git submodule update
git worktree add made
git branch made
git branch -d main
git branch -D main
git branch -m other
git branch -v made
git branch --format=x made
git branch -a made
git branch --list --edit-description main
git branch --list $X
git tag v1
git tag -d v1
git tag -n v1
git tag --sort=x v1
git remote add x y
git remote remove x
git remote set-url x y
git remote show origin
git reflog expire --all
git reflog delete x
git config user.name x
git config --unset user.name
git config --get --unset user.name
git config --edit
git config --get -e
git config -f canary x.y z
git -c core.pager=touch log
git -c alias.x='!touch canary' x
git --config-env=x=y log
git -C src status
git --git-dir=src status
git --exec-path=. log
git -p log
git log --output=canary
git log --outpu=canary
git diff --output canary
git diff -M --output=canary
git diff -C -O notes.txt
git show --output=canary HEAD
git log --ext-diff
git diff --textconv
git diff --no-index -O x a b
git log --show-signature
git log --format=%G?
git log *
git log $X
git grep -O alpha
git grep -Otouch alpha
git grep --open-files-in-pager=touch alpha
git cat-file --textconv HEAD:canary
git difftool
git help log
git archive -o canary HEAD
git bundle create canary HEAD
git format-patch -1
git update-index --refresh
git update-ref x y
git hash-object -w canary
$X
$X canary
ls {a,b}
ls # comment
ls \\
'unclosed
-x
""
:
set -x
alias ls=touch
trap ls EXIT
read X
kill 1
curl x
wget x
""".strip().splitlines() + ["", " ", "cat <<EOF\nx\nEOF", "ls\ntouch canary", "ls\r", "ls \0", "ls \\\n-la", "ls\x0btouch"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scratch folder with a canary, in a git repository of its own."""
    folder = tmp_path_factory.mktemp("scratch")
    (folder / "src").mkdir()
    for name, text in (
        ("canary", "alive\n"), ("notes.txt", "alpha 1\nbeta 2\ngamma 3\n"), ("src/a.py", "import os\n"),
        ("src/b.py", "def f(x): ...\n"), ("data.json", "{}"), ("notes.b64", "YQ=="),
    ):  # fmt: skip
        (folder / name).write_text(text, encoding="utf-8")
    if shutil.which("git"):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        for words in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "first"], ["status"]):
            subprocess.run(["git", *words], cwd=folder, env=environment(folder), check=True, capture_output=True)
    return folder


def environment(folder):
    return {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder.parent), "GIT_CEILING_DIRECTORIES": str(folder.parent)}


def contents(folder):
    """Return each file's bytes and mode. Left out is git's index: `git status` may note there what it has looked at."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if path.relative_to(folder).as_posix() != ".git/index"
    }


def test_what_people_read_with_passes(load):
    only_reads = load("read_only_commands").only_reads
    assert len(READING) == len(set(READING)) > 40
    assert [(command, only_reads(command)) for command in READING if only_reads(command)] == []


def test_the_rest_is_refused_with_a_reason_and_never_run(load, folder):
    only_reads, before = load("read_only_commands").only_reads, contents(folder)
    assert [command for command in CHANGING if not only_reads(command)] == []
    assert all(reason.isprintable() and len(reason) < 300 for reason in map(only_reads, CHANGING))
    assert contents(folder) == before


def test_what_passes_changes_nothing_when_it_runs(load, folder):
    """Each one is run for real. Programs that this machine does not have end with 127, and change nothing either."""
    if not POSIX:
        return
    assert [command for command in READING if load("read_only_commands").only_reads(command)] == []
    before, failed = contents(folder), []
    for command in READING:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, capture_output=True, timeout=20
        )
        assert contents(folder) == before, command
        failed += [command] if done.returncode not in (0, 127) else []
    assert set(failed) <= {"git describe --tags --always", "git config --get user.name", "printenv PATH"}, failed


def test_the_reason_names_the_word(load):
    only_reads = load("read_only_commands").only_reads
    assert only_reads("ls; touch canary") == "`touch` is not known to only read"
    assert only_reads("sort -u -o canary x") == "`sort -o` is not known to only read"
    assert only_reads("git log --output=x") == "`git log --output=x` is not known to only read"
    assert only_reads("git commit -m x") == "`git commit` is not known to only read"
    assert only_reads("sed -n 'w canary' x") == "`sed w canary` is not known to only read"
    assert only_reads("uniq a canary") == "`uniq canary` is not known to only read"
    assert only_reads("ls > canary") == "the words of this command do not tell what it does (a redirection)"
    assert "cd" in only_reads("cd a && git log")
    assert len(only_reads("x" * 10_000)) < 300


def test_a_refusal_is_quick_however_long_the_command_is(load):
    only_reads = load("read_only_commands").only_reads
    for command in ("sed -n '" + "1p;" * 20_000 + "w x' f", "printf '" + "%" * 50_000 + "n'", "sed '" + "s/a/b/g " * 10_000 + "' f", "sort " + "-n" * 50_000):
        only_reads(command)
