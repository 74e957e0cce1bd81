#!/bin/sh
# Ensures that the browser tests of reports can run: installs Chromium (or Chrome) and its WebDriver
# if they are missing. See ensuring.sh.
set -eu
case "$0" in */*) . "${0%/*}/ensuring.sh" ;; *) . ./ensuring.sh ;; esac

missing() {
    if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null &&
        ! command -v google-chrome >/dev/null && [ ! -d "/Applications/Google Chrome.app" ]; then
        echo "Chromium (no chromium, chromium-browser or google-chrome was found)"
    fi
    if ! command -v chromedriver >/dev/null; then
        echo "its WebDriver (no chromedriver was found)"
    fi
}

# Prints the command that installs both with this system's package manager; nothing if none is known.
install_line() {
    if command -v apt-get >/dev/null; then
        get="apt-get install -y --no-install-recommends"
        echo "apt-get update && { $get chromium chromium-driver || $get chromium-browser chromium-chromedriver; }"
    elif command -v dnf >/dev/null; then
        echo "dnf install -y chromium chromedriver"
    elif command -v apk >/dev/null; then
        echo "apk add chromium chromium-chromedriver"
    elif command -v brew >/dev/null; then
        echo "brew install --cask google-chrome chromedriver"
    fi
}

ensure "A test of reports in a browser" \
    "Install them, and make sure that both are on the PATH." \
    "Make sure that both are on the PATH."
