# find and du as an ordinary user: Permission denied on directories that are nobody's business.
mkdir -p tree/private tree/open && echo 1 > tree/open/a && chmod 700 tree/private && chmod 755 . tree tree/open
p=$PWD; chmod o+x "$p" "$(dirname "$p")"
setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "cd '$p' && find tree -type f; du -s tree; ls tree/private; ls /root" || echo "exit $? is expected"
echo scanned
