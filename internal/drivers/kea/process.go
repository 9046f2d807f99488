package kea

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times of processes in /proc, on every architecture of Linux.
const tick = 10 * time.Millisecond

// startOf is when the process of a Kea on this machine began, two ticks late at most: it reads its file
// later than that. It is not known of one that this machine has by another number, as in a container.
func startOf(pid int) (began time.Time, known bool) {
	folder := fmt.Sprintf("/proc/%d/", pid)
	name, err := os.ReadFile(folder + "comm")
	if err != nil || strings.TrimSpace(string(name)) != "kea-dhcp4" {
		return began, false
	}
	stat, err := os.ReadFile(folder + "stat")
	if err != nil {
		return began, false
	}
	up, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return began, false
	}
	now := time.Now()
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields, since := strings.Fields(string(rest)), strings.Fields(string(up))
	const startTime = 19 // of the fields behind the name
	if len(fields) <= startTime || len(since) == 0 {
		return began, false
	}
	ticks, errTicks := strconv.ParseInt(fields[startTime], 10, 64)
	running, errUp := strconv.ParseFloat(since[0], 64)
	if errTicks != nil || errUp != nil {
		return began, false
	}
	boot := now.Add(-time.Duration(running * float64(time.Second)))
	return boot.Add(time.Duration(ticks)*tick + 2*tick), true
}
