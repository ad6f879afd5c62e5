#!/bin/sh
# Data, settings and the user stay after a removal, so that the package can be installed again. "dpkg --purge"
# removes them.
set -e
if [ "$1" = purge ]; then
	rm -rf /var/lib/stackyard /etc/stackyard
	if getent passwd stackyard >/dev/null; then
		userdel stackyard
	fi
	if getent group stackyard >/dev/null; then
		groupdel stackyard
	fi
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
