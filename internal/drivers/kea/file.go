package kea

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
)

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// unread refuses a change while the file has an edit that Kea has not read: Kea writes its
// file whole, and the edit would be lost.
func (d *Driver) unread(ctx context.Context, running map[string]any) error {
	if d.file == "" {
		return nil
	}
	if is, err := d.hasRead(ctx, running); is || err != nil {
		return err
	}
	return fmt.Errorf("%s has an edit that Kea has not read, or Kea was given another configuration since, and the edit would be overwritten: have Kea read it (config-reload) or keep what it runs (config-write), or take the edit back", d.file)
}

// hasRead reports whether Kea has read the file as it is. Kea tells the second in which it was
// configured and not by what, so what it runs is compared with what the file has.
func (d *Driver) hasRead(ctx context.Context, running map[string]any) (is bool, err error) {
	raw, err := os.ReadFile(d.file)
	if err != nil {
		return false, fmt.Errorf("read Kea's file: %w", err)
	}
	if digest(raw) == d.own {
		return true, nil
	}
	inFile, unparsed := parseFile(raw)
	if is = unparsed == nil && d.readAs(inFile, running); !is {
		if is, err = d.mayHaveRead(ctx, unparsed != nil); err != nil {
			return false, err
		}
		is = is && (unparsed != nil || d.madeOf(inFile, running))
	}
	if !is {
		if is, err = d.readAtStart(ctx); err != nil {
			return false, err
		}
	}
	if is {
		d.own = digest(raw)
	}
	return is, nil
}

// changed is when the file got its content or its name: one that was moved here is older.
func (d *Driver) changed() (time.Time, error) {
	info, err := os.Stat(d.file)
	if err != nil {
		return time.Time{}, fmt.Errorf("read Kea's file: %w", err)
	}
	at := info.ModTime()
	if sys, is := info.Sys().(*syscall.Stat_t); is {
		if placed := time.Unix(sys.Ctim.Unix()); placed.After(at) {
			at = placed
		}
	}
	return at, nil
}

// status is what Kea tells of itself.
type status struct {
	Reload int64 `json:"reload"` // whole seconds since Kea was configured
	PID    int   `json:"pid"`
}

// mayHaveRead reports whether Kea was configured after the file changed, as far as a whole second
// tells; surely so if nothing else is to be known.
func (d *Driver) mayHaveRead(ctx context.Context, surely bool) (bool, error) {
	at, err := d.changed()
	if err != nil {
		return false, err
	}
	var s status
	asked := time.Now()
	if err := d.command(ctx, "status-get", nil, &s); err != nil {
		return false, err
	}
	latest := time.Now().Add(-time.Duration(s.Reload) * time.Second)
	if surely {
		latest = asked.Add(-time.Duration(s.Reload+1) * time.Second)
	}
	return !at.After(latest), nil
}

// readAtStart reports whether the file is older than the program that runs, which read it then.
func (d *Driver) readAtStart(ctx context.Context) (bool, error) {
	at, err := d.changed()
	if err != nil {
		return false, err
	}
	var s status
	if err := d.command(ctx, "status-get", nil, &s); err != nil {
		return false, err
	}
	p, runs := base.ProcessOf(s.PID, "kea-dhcp4")
	return runs && !at.After(p.Began), nil
}

// readAs reports whether Kea runs what the file has, value by value.
func (d *Driver) readAs(inFile, running map[string]any) bool {
	a, errA := d.item(inFile, "")
	b, errB := d.item(running, "")
	if errA != nil || errB != nil || !d.localIn(running, inFile) {
		return false
	}
	moved, err := base.Moved(d, a, b)
	return err == nil && !moved
}

// localIn reports whether the machine's members of a part are in the whole: Kea adds defaults to these too.
func (d *Driver) localIn(whole, part map[string]any) bool {
	return !slices.ContainsFunc(d.local, func(name string) bool {
		v, there := part[name]
		return there && !contains(name, whole[name], v)
	})
}

// madeOf reports whether Kea runs what the file has as it spells and orders that, and nothing else.
func (d *Driver) madeOf(inFile, running map[string]any) bool {
	a, b := d.form(inFile), d.form(running)
	return d.localIn(running, inFile) && contains("", b, a) && made("", a, b)
}

// form is a configuration without the machine's members, in normal form.
func (d *Driver) form(config map[string]any) map[string]any {
	m := maps.Clone(config)
	maps.DeleteFunc(m, func(name string, _ any) bool { return slices.Contains(d.local, name) })
	return normal("", m, nil)
}

// contains reports whether all of a part is in the whole, as Kea spells and orders it. It is the
// value of a member.
func contains(member string, whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		m, is := whole.(map[string]any)
		for name, v := range part { // order-free: all have to be there
			is = is && contains(name, m[name], v)
		}
		return is
	case []any:
		list, is := whole.([]any)
		return is && inLists(member, list, part, contains)
	case string:
		text, is := whole.(string)
		return is && folded(member, text) == folded(member, part)
	}
	return same(whole, part)
}

// made reports whether Kea may have made a configuration of what a file has: what is not in that
// are options as they are defined, or values of what it is in.
func made(member string, of, config any) bool {
	switch config := config.(type) {
	case map[string]any:
		m, _ := of.(map[string]any)
		for name, v := range config { // order-free: all have to be so
			if _, there := m[name]; !there && (member == "option-def" || member == "option-data" || member != "" && (slices.Contains(inherited, name) || name == "renew-timer" || name == "rebind-timer")) {
				continue
			}
			if !made(name, m[name], v) {
				return false
			}
		}
		return m != nil
	case []any:
		list, is := of.([]any)
		return is && inLists(member, list, config, made)
	}
	return of != nil || config == nil
}

// inLists compares the elements of lists as long as each other: in their order, but for those that Kea
// orders.
func inLists(member string, list, part []any, fits func(member string, a, b any) bool) bool {
	anyOrder := member == "reservations" || member == "option-data"
	used := make([]bool, len(list))
	for i, e := range part {
		if len(list) != len(part) {
			return false
		}
		found := i
		for n := 0; n < len(list) && anyOrder; n++ {
			if found = (i + n) % len(list); !used[found] && fits(member, list[found], e) {
				break
			}
		}
		if used[found] || !fits(member, list[found], e) {
			return false
		}
		used[found] = true
	}
	return len(list) == len(part)
}

// folded is a text without what Kea spells in its own way.
func folded(member, s string) string {
	switch member {
	case "pool":
		s = strings.ReplaceAll(s, " ", "")
		if p, err := netip.ParsePrefix(s); err == nil {
			last := p.Masked().Addr().AsSlice()
			for bit := p.Bits(); bit < 8*len(last); bit++ {
				last[bit/8] |= 0x80 >> (bit % 8)
			}
			if end, is := netip.AddrFromSlice(last); is {
				s = p.Masked().Addr().String() + "-" + end.String()
			}
		}
		return s
	case "hw-address", "client-id", "duid", "circuit-id", "flex-id", "data":
		if text, is := strings.CutPrefix(s, "'"); is {
			s = hex.EncodeToString([]byte(strings.TrimSuffix(text, "'")))
		}
		return strings.ToLower(strings.NewReplacer(" ", "", ":", "").Replace(s))
	}
	return s
}

// parseFile reads a configuration file, which may have comments. One that includes others is
// not read.
func parseFile(raw []byte) (map[string]any, error) {
	v, err := nodeconfig.Decode(withoutExtraCommas(withoutComments(raw)))
	if err != nil {
		return nil, fmt.Errorf("the file of Kea: %w", err)
	}
	all, _ := v.(map[string]any)
	config, is := all[root].(map[string]any)
	if !is {
		return nil, fmt.Errorf("the file of Kea has no %s", root)
	}
	return config, nil
}

// withoutExtraCommas drops commas behind the last member of an object or list, which Kea passes over.
func withoutExtraCommas(raw []byte) []byte {
	text, comma := false, -1
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text, comma = !text, -1
		case text:
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			raw[comma], comma = ' ', -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return raw
}

// withoutComments replaces those that begin with #, // or /*, outside of texts.
func withoutComments(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	text, rest := false, raw
	for len(rest) > 0 {
		n := 1
		switch two := string(rest[:min(2, len(rest))]); {
		case text && rest[0] == '\\':
			n = min(2, len(rest))
		case rest[0] == '"':
			text = !text
		case text:
		case rest[0] == '#' || two == "//":
			rest = after(rest, "\n")
			out = append(out, '\n')
			continue
		case two == "/*":
			rest = after(rest[2:], "*/")
			out = append(out, ' ')
			continue
		}
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	return out
}

func after(raw []byte, end string) []byte {
	for i := range raw {
		if len(raw)-i >= len(end) && string(raw[i:i+len(end)]) == end {
			return raw[i+len(end):]
		}
	}
	return nil
}
