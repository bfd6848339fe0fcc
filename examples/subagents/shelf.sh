# Prints the letters on a shelf as JSON; the last one says where to go on.
case "$1" in
  alder) hint="see birch" ;;
  birch) hint="see cedar" ;;
  cedar) hint="code 7431" ;;
  *) echo "there is no shelf $1" >&2; exit 1 ;;
esac
printf '[{"hint": "%s"}' "$hint"
for day in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  printf ', {"from": "sender %s", "text": "About the weather on day %s, at some length."}' "$day" "$day"
done
printf ']\n'
