#!/bin/sh
# The Pacemaker that the agents talk to: attributes are files, nothing is ever running, nothing is ever planned.
# Installed under the name of each command it plays; a shell script because an agent calls it some twenty times a look.
set -eu

crm_attribute() {
    default='' action=update
    while [ $# -gt 0 ]; do
        case $1 in
        --name | -n) name=$2 && shift ;;
        --node | -N) place=$2 && shift ;;
        --type | -t) place=$2 && shift ;;
        --update | -v) value=$2 && shift ;;
        --default) default=$2 && shift ;;
        --query) action=query ;;
        --delete) action=delete ;;
        --quiet | --lifetime=forever) ;;
        *) echo "crm_attribute: $1?" >&2 && exit 64 ;;
        esac
        shift
    done
    file=$TEST_CLUSTER/attributes/$place/$name
    case $action in
    query) if [ -e "$file" ]; then cat "$file"; else echo "$default"; fi ;;
    delete) rm -f "$file" ;;
    update) mkdir -p "${file%/*}" && echo "$value" >"$file" ;;
    esac
}

case ${0##*/} in
crm_attribute) crm_attribute "$@" ;;
crm_node) cat "$TEST_CLUSTER/nodes" ;;
crm_resource) ;; # operations on a node: none
crm_simulate) echo 'Transition Summary:' ;;
esac
