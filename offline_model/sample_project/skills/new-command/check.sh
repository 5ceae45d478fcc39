# Says what is missing of a command of the notes app: bash skills/new-command/check.sh NAME

name=$1
missing=0

look() { # file, pattern, what it stands for
    grep -q "$2" "$1" && return
    echo "$name: $1 lacks $3"
    missing=1
}

look notes.py "^USAGE = .*$name" "its place in USAGE"
look test_notes.py "def test_$name" "a test"
look docs/usage.md "^| .$name" "a row in the table"
[ $missing = 0 ] && echo "$name: nothing is missing"
exit $missing
