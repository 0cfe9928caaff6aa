# What apt would do: package names such as libgpg-error0 and liberror-perl.
# needs: apt-get
apt-get -s install --reinstall libgpg-error0 perl 2>&1
apt-get -s autoremove 2>&1 | tail -n 20
dpkg -l '*error*' 'libc6' 2>&1
dpkg --audit
