#!/usr/bin/env bash
# The browser for tests/service/test_page.py: Debian's Chromium with its driver, installed where that is allowed.
set -euo pipefail
if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "chromium and chromedriver are not installed and this user cannot install them; the page's tests will be skipped" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq -o DPkg::Lock::Timeout=300 update
apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends install chromium chromium-driver >/dev/null
