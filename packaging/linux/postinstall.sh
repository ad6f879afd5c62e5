#!/bin/sh
# Runs after installation and after an upgrade, on Debian and on RPM systems.
set -e
if ! getent group stackyard >/dev/null; then
	groupadd --system stackyard
fi
if ! getent passwd stackyard >/dev/null; then
	useradd --system --gid stackyard --home-dir /var/lib/stackyard --no-create-home --shell /usr/sbin/nologin stackyard
fi
install -d -m 0700 -o stackyard -g stackyard /var/lib/stackyard
chgrp stackyard /etc/stackyard /etc/stackyard/stackyard.env
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts a server that runs; a first installation starts nothing.
	systemctl try-restart stackyard.service
fi
