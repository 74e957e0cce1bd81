#!/bin/sh
# Makes sure that there is what a real Kafka needs: a JDK (17 or newer) and Maven. Silent where both
# are there. Else says what is missing, and installs it with the system's package manager where it
# may (as root, or by sudo without a password); else stops with the one line to type.
set -eu

NEEDED=17

java_release() {
    "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1
}

java_program() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

compiler() {
    if [ -n "${JAVA_HOME:-}" ]; then
        command -v "$JAVA_HOME/bin/javac"
    else
        command -v javac
    fi
}

missing() {
    java=$(java_program)
    if [ -z "$java" ]; then
        echo "a JDK, $NEEDED or newer (no java was found)"
    else
        release=$(java_release "$java")
        if [ "${release:-0}" -lt "$NEEDED" ]; then
            echo "a JDK, $NEEDED or newer ($java is ${release:-of an unknown version})"
        elif ! compiler >/dev/null; then
            echo "a JDK, $NEEDED or newer ($java is a runtime only: it has no javac)"
        fi
    fi
    if ! command -v mvn >/dev/null; then
        echo "Maven (no mvn was found)"
    fi
}

# The line that installs both, for this system's package manager; nothing where none is known.
install_line() {
    if command -v apt-get >/dev/null; then
        get="apt-get install -y --no-install-recommends maven"
        echo "apt-get update && { $get openjdk-17-jdk-headless || $get openjdk-21-jdk-headless; }"
    elif command -v dnf >/dev/null; then
        echo "dnf install -y java-21-openjdk-devel maven"
    elif command -v yum >/dev/null; then
        echo "yum install -y java-17-openjdk-devel maven"
    elif command -v apk >/dev/null; then
        echo "apk add openjdk17-jdk maven"
    elif command -v brew >/dev/null; then
        echo "brew install openjdk@21 maven"
    fi
}

# Whether it may be installed without asking anybody.
may_install() {
    case "$1" in
    brew*) return 0 ;;
    esac
    if [ "$(id -u)" -eq 0 ]; then
        return 0
    fi
    command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

as_root() {
    case "$1" in
    brew*) sh -c "$1" ;;
    *)
        if [ "$(id -u)" -eq 0 ]; then
            DEBIAN_FRONTEND=noninteractive sh -c "$1"
        else
            sudo -n env DEBIAN_FRONTEND=noninteractive sh -c "$1"
        fi
        ;;
    esac
}

lacking=$(missing)
if [ -z "$lacking" ]; then
    exit 0
fi
echo "A real Kafka on this machine needs:" >&2
echo "$lacking" | sed 's/^/  - /' >&2

line=$(install_line)
if [ -z "$line" ]; then
    echo "No known package manager was found. Install them, and see that java and mvn are on the PATH." >&2
    exit 1
fi
if ! may_install "$line"; then
    echo "Type:" >&2
    echo "  sudo sh -c '$line'" >&2
    exit 1
fi
echo "Installing: $line" >&2
as_root "$line" >&2 || {
    echo "That failed. Type it yourself to see why, or install them your way." >&2
    exit 1
}
lacking=$(missing)
if [ -n "$lacking" ]; then
    echo "Installed, but still missing:" >&2
    echo "$lacking" | sed 's/^/  - /' >&2
    echo "If another java comes first on the PATH, let JAVA_HOME name the new one." >&2
    exit 1
fi
