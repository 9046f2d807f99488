package warning

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// rule is what is known of a kind. In its texts {name} is whose it is, {at} when it
// ends, {left} and {ago} how far that is, {age} how long ago it began, {used},
// {limit}, {free} and {percent} how full it is.
type rule struct {
	kind Kind
	// before is how long before its end people are warned; with a share, at most
	// that part of its life. Zero warns at the end alone.
	before clock.Duration
	share  int
	// percent used is a warning and critical from then on, unless so many bytes or
	// more are free (spare).
	percent, spare [2]int64
	// mild is never critical: nothing stops at its end.
	mild bool
	// quiet is never a warning: its end is what somebody asked for.
	quiet bool
	// perHost is what every host has: all of them are one item.
	perHost bool
	// soon and past say what happens, before the end and after it.
	soon, past, next string
}

const gib = 1 << 30

// table is the list, in the order in which it is shown.
var table = []rule{
	{kind: Timestamp, before: clock.Day, share: 4,
		soon: "the timestamp of channel {name} expires in {left}, at {at}: then nothing is granted on the channel",
		past: "the timestamp of channel {name} expired {ago} ago, at {at}: nothing is granted on the channel since then",
		next: "sign a new one: steady release refresh (elsewhere than in its folder with --previous server), then steady release push"},
	{kind: Root, before: 30 * clock.Day,
		soon: "the root of trust expires in {left}, at {at}: then nothing new is accepted",
		past: "the root of trust expired {ago} ago, at {at}: nothing new is accepted",
		next: "steady keys rotate, then steady keys root push"},
	{kind: HostAuthority, before: 30 * clock.Day,
		soon: "the authority of hosts expires in {left}, at {at}: then no host can connect",
		past: "the authority of hosts expired {ago} ago, at {at}: no host can connect",
		next: "steady server init-ca --replace, after which every host enrols again"},
	{kind: ServerAuthority, before: 30 * clock.Day,
		soon: "the authority of the server's certificate expires in {left}, at {at}: then no host and no operator can connect",
		past: "the authority of the server's certificate expired {ago} ago, at {at}: no host and no operator can connect",
		next: "steady server init-ca --replace, after which every host enrols again"},
	{kind: ServerCertificate, before: 30 * clock.Day, share: 4,
		soon: "the server's certificate expires in {left}, at {at}, and was not renewed: then no host and no operator can connect",
		past: "the server's certificate expired {ago} ago, at {at}, and was not renewed: no host and no operator can connect",
		next: "restart the server, which issues a new one; its log says why it could not"},
	{kind: HostCertificate, before: 30 * clock.Day, share: 4, perHost: true,
		soon: "the certificate of {name} expires in {left}, at {at}: a host that is away until then has to enrol again",
		past: "the certificate of {name} expired {ago} ago, at {at}: the host cannot connect any more",
		next: "bring the host back in time, or enrol it again: steady token create {name}; steady host decommission {name} if it is gone"},
	{kind: OperatorToken, before: 14 * clock.Day, share: 4, mild: true,
		soon: "the operator token {name} expires in {left}, at {at}",
		past: "the operator token {name} expired {ago} ago, at {at}, and is refused",
		next: "make a new one: steady operator create"},
	{kind: Window, before: 30 * clock.Day,
		soon: "the maintenance window {name} opens for the last time before {at}, in {left}: its table of the time zone ends then",
		past: "the maintenance window {name} never opens again since {at}: hosts that wait for it wait for ever",
		next: "steady release build, sign and push: a new release has a new table"},
	{kind: Overrides, percent: [2]int64{80, 100},
		soon: "{used} of {limit} signed overrides are kept ({percent} %): beyond that none is accepted",
		past: "{used} of {limit} signed overrides are kept: no other one is accepted",
		next: "steady keys epoch ends them all; see docs/operating.md"},
	{kind: Disk, percent: [2]int64{90, 97}, spare: [2]int64{20 * gib, 2 * gib},
		soon: "the disk of the data folder is {percent} % full, {free} are free: when it is full nothing is accepted and nothing is granted",
		past: "the disk of the data folder is {percent} % full, {free} are free: when it is full nothing is accepted and nothing is granted",
		next: "free disk space, or give the disk more"},
	{kind: Log, percent: [2]int64{80, 95},
		soon: "the log takes {used} of the {limit} that --max-log-bytes allows ({percent} %): at the bound nothing is accepted and nothing is granted",
		past: "the log takes {used} of the {limit} that --max-log-bytes allows ({percent} %): at the bound nothing is accepted and nothing is granted",
		next: "start the server with a larger --max-log-bytes"},
	{kind: Backup, mild: true,
		past: "the last backup of the data folder was {age} ago",
		next: "make one: steady server backup --data DATA DIR; see docs/operating.md"},
	{kind: Freeze, quiet: true, perHost: true},
	{kind: Outbox, percent: [2]int64{100, 1000}, mild: true, perHost: true,
		soon: "events of {name} wait on the host and do not reach the server, {used} of them on the first",
		past: "events of {name} wait on the host and do not reach the server, {used} of them on the first",
		next: "check the log of its agent; steady host show {name}"},
}

var rules = func() map[Kind]*rule {
	m := map[Kind]*rule{}
	for i := range table {
		m[table[i].kind] = &table[i]
	}
	return m
}()

// Kinds lists the kinds in the order in which they are shown.
func Kinds() []Kind {
	out := make([]Kind, len(table))
	for i := range table {
		out[i] = table[i].kind
	}
	return out
}

// warnsAt is when the warning of what ends begins.
func (r *rule) warnsAt(f Fact) clock.Instant {
	before := r.before
	if life := f.Ends.Sub(f.Since); r.share > 0 && f.Since != 0 && life > 0 {
		before = min(before, life/clock.Duration(r.share))
	}
	return f.Ends.Add(-before)
}

func (r *rule) level(f Fact, now clock.Instant) Level {
	l := OK
	switch {
	case r.quiet:
		return OK
	case f.Ends != 0 && now >= f.Ends:
		l = Critical
	case f.Ends != 0 && now >= r.warnsAt(f):
		l = Warning
	case f.Limit > 0 && r.full(f, 1, 0):
		l = Critical
	case f.Limit > 0 && r.full(f, 0, 0):
		l = Warning
	}
	if r.mild && l == Critical {
		l = Warning
	}
	return l
}

// margin is how many percentage points below its threshold something has room
// again, so that what sways around it is one warning.
const margin = 5

func (r *rule) recovered(f Fact, now clock.Instant) bool {
	return r.level(f, now) == OK && !(f.Limit > 0 && r.full(f, 0, margin))
}

// full reports whether more than a threshold is taken, less some percentage points.
func (r *rule) full(f Fact, threshold int, less int64) bool {
	taken := float64(f.Used) / float64(f.Limit) * 100
	spare := r.spare[threshold]
	return r.percent[threshold] > 0 && taken >= float64(r.percent[threshold]-less) && (spare == 0 || f.Limit-f.Used < spare)
}

func (r *rule) message(f Fact, name string, l Level, now clock.Instant) string {
	text := r.soon
	if l == Critical || f.Ends != 0 && now >= f.Ends {
		text = r.past
	}
	return fill(text, f, name, now)
}

func fill(text string, f Fact, name string, now clock.Instant) string {
	percent := int64(0)
	if f.Limit > 0 {
		percent = int64(float64(f.Used) / float64(f.Limit) * 100)
	}
	size := Bytes
	if f.Kind == Outbox || f.Kind == Overrides {
		size = func(n int64) string { return fmt.Sprint(n) }
	}
	return strings.NewReplacer("{name}", name, "{at}", f.Ends.String(), "{left}", About(f.Ends.Sub(now)), "{ago}", About(now.Sub(f.Ends)), "{age}", About(now.Sub(f.Since)),
		"{used}", size(f.Used), "{limit}", size(f.Limit), "{free}", Bytes(f.Limit-f.Used), "{percent}", fmt.Sprint(percent)).Replace(text)
}

// About says a duration in its two largest units.
func About(d clock.Duration) string {
	switch {
	case d < clock.Minute:
		return fmt.Sprintf("%d s", max(d, 0)/clock.Second)
	case d < clock.Hour:
		return fmt.Sprintf("%d min %d s", d/clock.Minute, d%clock.Minute/clock.Second)
	case d < clock.Day:
		return fmt.Sprintf("%d h %d min", d/clock.Hour, d%clock.Hour/clock.Minute)
	case d < 60*clock.Day:
		return fmt.Sprintf("%d d %d h", d/clock.Day, d%clock.Day/clock.Hour)
	}
	return fmt.Sprintf("%d days", d/clock.Day)
}

// Bytes says a size in its largest unit.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d bytes", n)
	}
	size, unit := float64(n)/1024, 0
	for size >= 1024 && unit < len(units)-1 {
		size, unit = size/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", size, units[unit])
}
