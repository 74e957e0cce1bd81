# Shared code of the ensure-*.sh scripts, which source this file. Silent if nothing is missing.
# Otherwise it lists the missing programs, and installs them with the system's package manager if
# it may: as root, or by sudo without a password. If it may not, it stops with the command to type.
#
# A script defines missing(), which prints the missing programs, one per line. It also defines
# install_line(), which prints the command that installs them, or nothing if no package manager is
# known.

# Succeeds if the command may be run without asking anybody.
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

# ensure PURPOSE ADVICE-WITHOUT-A-PACKAGE-MANAGER ADVICE-IF-STILL-MISSING-AFTERWARDS
ensure() {
    needed=$(missing)
    if [ -z "$needed" ]; then
        exit 0
    fi
    echo "$1 needs:" >&2
    echo "$needed" | sed 's/^/  - /' >&2

    line=$(install_line)
    if [ -z "$line" ]; then
        echo "No known package manager was found. $2" >&2
        exit 1
    fi
    if ! may_install "$line"; then
        echo "Run:" >&2
        echo "  sudo sh -c '$line'" >&2
        exit 1
    fi
    echo "Installing: $line" >&2
    as_root "$line" >&2 || {
        echo "That failed. Run the command yourself to see why, or install them another way." >&2
        exit 1
    }
    needed=$(missing)
    if [ -n "$needed" ]; then
        echo "Installed, but still missing:" >&2
        echo "$needed" | sed 's/^/  - /' >&2
        echo "$3" >&2
        exit 1
    fi
}
