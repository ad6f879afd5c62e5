#!/bin/sh
# Debian calls this with "remove" or "upgrade", RPM with 0 (removal) or 1 (upgrade).
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now stackyard.service
	fi
	;;
esac
