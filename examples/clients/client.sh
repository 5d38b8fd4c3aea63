#!/usr/bin/env bash
# Scheduled Events with curl and jq: ask, pick what hits this VM, get ready, approve, come back.
#   client.sh HOOK      the hook is called with: prepare|others-ready|restore EVENT-ID EVENT-TYPE; exit 0 means done
set -u
hook=$1
base=${DUENOTICE_METADATA_ENDPOINT:-http://169.254.169.254}
events="$base/metadata/scheduledevents?api-version=2020-07-01"
state=${DUENOTICE_STATE_DIR:-/var/lib/duenotice-client} # what was begun must survive a reboot
mkdir -p "$state" || exit 1

ask() { # the header goes with POST too; no proxy; a redirect is an error
    curl --silent --show-error --fail --noproxy '*' --location --max-redirs 0 --max-time 3 --header Metadata:true "$@"
}

approve() { # for all VMs of the event: only its leader does it, and only when every one of them is ready
    ask --output /dev/null --data "{\"StartRequests\":[{\"EventId\":\"$1\"}]}" "$events"
}

until me=$(ask "$base/metadata/instance/compute/name?api-version=2021-02-01&format=text") && [ -n "$me" ]; do sleep 1; done
declare -A approved=()

while sleep 1; do
    # An error, an empty answer or a sign-in page is not "no events": leave all as it is and ask again.
    document=$(ask "$events") && [ "$(jq '.Events | type == "array"' <<<"$document")" = true ] || continue
    # Every event counts, not only the first; NotBefore is left alone, it is empty once an event has started.
    mine=$(jq --raw-output --arg me "$me" '.Events[] | select(.Resources | index([$me])) |
        [.EventId, .EventType, .EventStatus, .Resources[0] == $me, (.Resources | length)] | @tsv' <<<"$document") || continue

    while IFS=$'\t' read -r id type status leader hit; do
        [[ $id =~ ^[0-9A-Fa-f-]+$ ]] || continue # it names a file
        if [ "$(cat "$state/$id" 2>/dev/null)" != "prepared $type" ]; then
            echo "begun $type" >"$state/$id" # first, so that it is undone even if we are killed on the way
            "$hook" prepare "$id" "$type" </dev/null && echo "prepared $type" >"$state/$id" || continue
        fi
        [ "$leader$status" = trueScheduled ] && [ -z "${approved[$id]:-}" ] || continue
        [ "$hit" = 1 ] || "$hook" others-ready "$id" "$type" </dev/null || continue
        approve "$id" && approved[$id]=yes
    done < <([ -n "$mine" ] && printf '%s\n' "$mine")

    for begun in "$state"/*; do # an event that is over or cancelled just disappears
        id=${begun##*/}
        [ -e "$begun" ] && ! grep --quiet "^$id"$'\t' <<<"$mine" || continue
        read -r _ type <"$begun"
        "$hook" restore "$id" "$type" </dev/null && rm "$begun"
    done
done
