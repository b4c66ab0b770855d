#!/bin/sh
# One argument, the folder. JSON goes to stdout; what du has to say goes to stderr, and from there to the log.
if [ ! -d "$1" ]; then
    echo '{"error": {"code": "EINVAL", "message": "path is no folder on this machine"}}'
    exit 1
fi
size=$(du -sk -- "$1") || exit 1
printf '{"kib": %d}\n' "${size%%[!0-9]*}"
