#!/bin/busybox sh
# The whole user space of a test guest: it asks the metadata address, says on its console what it saw, and approves.
# Each line of it on the console begins with "dn: ". What it does is on the kernel's command line (dn.NAME=VALUE).
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
exec >/dev/ttyS0 2>&1 </dev/null
echo 1 >/proc/sys/kernel/printk

say() { echo "dn: $*"; }

address=10.77.0.2 approve=no acpi=obey every=0.5 spoof= spoof_mac= event= own=
for word in $(cat /proc/cmdline); do
    case $word in
    dn.address=*) address=${word#*=} ;;
    dn.approve=*) approve=${word#*=} ;;
    dn.own=*) own=${word#*=} ;; # its name: it approves nothing for others of its set
    dn.acpi=*) acpi=${word#*=} ;;
    dn.every=*) every=${word#*=} ;;
    dn.spoof=*) spoof=${word#*=} ;;
    dn.event=*) event=${word#*=} ;;
    dn.spoof_mac=*) spoof_mac=${word#*=} ;;
    esac
done

for module in $(cat /modules/order); do
    insmod /modules/$module.ko || say "cannot load $module"
done
boot=$(cat /proc/sys/kernel/random/boot_id)
say boot "$boot"

# One with a disk says what its last life has left there, and leaves its own boot id.
if [ -b /dev/vda ]; then
    say "disk has '$(dd if=/dev/vda bs=512 count=1 2>/dev/null | tr -d '\0')'"
    echo "$boot" | dd of=/dev/vda bs=512 conv=sync,fsync 2>/dev/null && say "disk written"
fi

# The power button: the first event of it means that the host wants the guest to end.
power_button() {
    for device in /sys/class/input/event*; do
        if [ "$(cat "$device/device/name" 2>/dev/null)" = "Power Button" ]; then
            head -c 24 "/dev/input/${device##*/}" >/dev/null
            say power button
            [ "$acpi" = obey ] || return
            say clean end
            sync
            poweroff -f
        fi
    done
}
power_button &

endpoint='http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01'
# Debian's BusyBox falls over wget's own -T.
ask() { timeout 3 wget -q -O - --header 'Metadata: true' "$@" "$endpoint" 2>/tmp/error; }

ip link set lo up
ip link set eth0 up
ip address add "$address/24" dev eth0
ip route add 169.254.169.254 dev eth0

if [ -n "$spoof" ]; then
    # First as itself, so that it is shown to work; then as somebody else.
    for try in 1 2 3 4 5 6 7 8 9 10; do
        own=$(ask) && break
        sleep 0.5
    done
    say "itself: $own"
    ip link set eth0 down
    [ -z "$spoof_mac" ] || ip link set eth0 address "$spoof_mac"
    ip address flush dev eth0
    ip address add "$spoof/24" dev eth0
    ip link set eth0 up
    ip route add 169.254.169.254 dev eth0
    arping -c 2 -U -I eth0 "$spoof" >/dev/null
    # All at once: none of them gets an answer before its time is up.
    tries=
    for try in 1 2 3; do
        say "as $spoof: $(ask || echo nothing)" &
        tries="$tries $!"
        say "approved as $spoof: $(ask --post-data '{"StartRequests":[{"EventId":"'"$event"'"}]}' || echo nothing)" &
        tries="$tries $!"
    done
    wait $tries
    say spoofed
    while :; do sleep 60; done
fi

last= approved=
while :; do
    if document=$(ask); then
        if [ "$document" != "$last" ]; then
            say "document $document"
            last=$document
        fi
        if [ "$approve" = yes ]; then
            case $document in
            *'"EventStatus":"Scheduled"'*'"'"$own"*)
                id=$(echo "$document" | sed 's/.*"EventId":"\([^"]*\)".*/\1/')
                if [ "$id" != "$approved" ] && ask --post-data "{\"StartRequests\":[{\"EventId\":\"$id\"}]}"; then
                    say "approved $id"
                    approved=$id
                fi
                ;;
            esac
        fi
    else
        say "no answer: $(cat /tmp/error)"
    fi
    # The real-time clock goes on while the guest is paused; its uptime does not.
    say "tick $(cut -d' ' -f1 /proc/uptime) $(cat /sys/class/rtc/rtc0/since_epoch)"
    sleep "$every"
done
