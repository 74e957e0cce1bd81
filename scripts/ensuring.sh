# What the ensure-*.sh scripts share; they source it. Silent where all is there. Else it says what is
# missing, and installs it with the system's package manager where it may (as root, or by sudo
# without a password); else it stops with the one line to type.
#
# A script defines missing(), which prints what is missing, a line each, and install_line(), which
# prints the line that installs it, or nothing where no package manager is known.

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

# ensure WHO-NEEDS-IT WHAT-TO-SEE-TO-BY-HAND WHAT-IT-MAY-BE-WHEN-STILL-MISSING
ensure() {
    lacking=$(missing)
    if [ -z "$lacking" ]; then
        exit 0
    fi
    echo "$1 needs:" >&2
    echo "$lacking" | sed 's/^/  - /' >&2

    line=$(install_line)
    if [ -z "$line" ]; then
        echo "No known package manager was found. $2" >&2
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
        echo "$3" >&2
        exit 1
    fi
}
