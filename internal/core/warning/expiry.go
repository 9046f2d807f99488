// Package warning says what people are warned of: what ends or fills up in a fleet, and
// places of releases that are in trouble. It is the one list of the first: from when on
// it is a warning, what it means and what to do next. Facts and an instant come in,
// ordered items come out: status, doctor, events and metrics all show these. What was
// warned of and is not over is a fold; each thing is logged once, until it gets worse.
package warning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Kind is a kind of thing that ends or fills up.
type Kind string

// The kinds. Enrolment tokens are none: until one is used only its holder has it,
// and steady token create says when it ends.
const (
	Timestamp         Kind = "timestamp"          // of a channel
	Root              Kind = "root"               // of trust
	HostAuthority     Kind = "host-authority"     // behind the certificates of hosts
	ServerAuthority   Kind = "server-authority"   // behind the server's certificate
	ServerCertificate Kind = "server-certificate" // which the server renews itself
	HostCertificate   Kind = "host-certificate"   // which agents renew themselves
	OperatorToken     Kind = "operator-token"
	Freeze            Kind = "freeze"             // of a host
	Window            Kind = "maintenance-window" // of a channel's plan
	Overrides         Kind = "overrides"          // signed ones that are kept
	Disk              Kind = "disk"               // of the data folder
	Log               Kind = "log"                // against its bound
	Backup            Kind = "backup"             // the last one that was marked
	Outbox            Kind = "outbox"             // events that a host could not deliver
)

// Level says how near the end is.
type Level string

// The levels, from good to bad. Critical means that something stopped working.
const (
	OK       Level = "ok"
	Warning  Level = "warning"
	Critical Level = "critical"
)

var order = []Level{OK, Warning, Critical}

// Worse reports whether l is worse than m.
func (l Level) Worse(m Level) bool { return slices.Index(order, l) > slices.Index(order, m) }

// Fact is one thing that ends at an instant, or that fills up.
type Fact struct {
	Kind Kind
	Name string // of the channel, host or token; empty where there is only one
	// Since is when it began; zero if nobody knows.
	Since clock.Instant
	// Ends is when it ends; zero for what fills up.
	Ends clock.Instant
	// Used of Limit is taken.
	Used, Limit int64
}

// Item is one row of the list.
type Item struct {
	Kind  Kind          `json:"kind"`
	Name  string        `json:"name,omitempty"`
	Level Level         `json:"level"`
	Ends  clock.Instant `json:"ends,omitempty"`
	Used  int64         `json:"used,omitempty"`
	Limit int64         `json:"limit,omitempty"`
	// Hosts is how many are at this level, for what every host has.
	Hosts int `json:"hosts,omitempty"`
	// Message says what ends, when, and what that means; Next what to do. Both are
	// empty while all is well.
	Message string `json:"message,omitempty"`
	Next    string `json:"next,omitempty"`
	// Recovered is false while what fills up is still close to its threshold: a
	// warning stands until there is clearly room.
	Recovered bool `json:"-"`
}

// Key names the thing.
func (i *Item) Key() string { return string(i.Kind) + "/" + i.Name }

// Warning is the whole sentence; empty while all is well.
func (i *Item) Warning() string {
	if i.Message == "" {
		return ""
	}
	return i.Message + "; " + i.Next
}

// Items judges the facts, the worst first. What every host has is one item: of the
// host whose end is the nearest, with the names of the first few.
func Items(facts []Fact, now clock.Instant) []Item {
	var out []Item
	perHost := map[Kind][]Fact{}
	for _, f := range facts {
		if r := rules[f.Kind]; r.perHost {
			perHost[f.Kind] = append(perHost[f.Kind], f)
			continue
		}
		out = append(out, judge(f, now))
	}
	for kind, all := range perHost { // order-free: sorted below
		out = append(out, summarize(kind, all, now))
	}
	slices.SortFunc(out, func(a, b Item) int {
		return cmp.Or(slices.Index(order, b.Level)-slices.Index(order, a.Level), cmp.Compare(kindOrder(a.Kind), kindOrder(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return out
}

func kindOrder(k Kind) int { return slices.Index(Kinds(), k) }

// judge applies the rule of the fact's kind.
func judge(f Fact, now clock.Instant) Item {
	r := rules[f.Kind]
	item := Item{Kind: f.Kind, Name: f.Name, Level: r.level(f, now), Ends: f.Ends, Used: f.Used, Limit: f.Limit, Recovered: r.recovered(f, now)}
	if item.Level != OK {
		item.Message, item.Next = r.message(f, f.Name, item.Level, now), fill(r.next, f, f.Name, now)
	}
	return item
}

// namedHosts bounds how many hosts an item names.
const namedHosts = 3

// summarize makes one item of what every host has.
func summarize(kind Kind, all []Fact, now clock.Instant) Item {
	r := rules[kind]
	slices.SortFunc(all, func(a, b Fact) int {
		return cmp.Or(cmp.Compare(a.Ends, b.Ends), cmp.Compare(b.Used, a.Used), strings.Compare(a.Name, b.Name))
	})
	worst := OK
	for _, f := range all {
		if l := r.level(f, now); l.Worse(worst) {
			worst = l
		}
	}
	item := Item{Kind: kind, Level: worst, Ends: all[0].Ends, Used: all[0].Used, Limit: all[0].Limit, Recovered: worst == OK}
	var names []string
	for _, f := range all {
		if r.level(f, now) == worst {
			names = append(names, f.Name)
		}
	}
	item.Hosts = len(names)
	if worst != OK {
		item.Message, item.Next = r.message(all[0], people(names), worst, now), fill(r.next, all[0], names[0], now)
	}
	return item
}

// people lists the first names and counts the rest.
func people(names []string) string {
	shown := min(len(names), namedHosts)
	s := strings.Join(names[:shown], ", ")
	if rest := len(names) - shown; rest > 0 {
		s += fmt.Sprintf(" and %d more", rest)
	}
	return s
}
