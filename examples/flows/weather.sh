# Arguments come in the command line where it names them, and as JSON on standard input.
echo "$1: 22 degrees, sunny"
