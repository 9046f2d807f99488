package kea

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
)

func digest(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read Kea's file: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// unread refuses a change while the file has an edit that Kea has not read: Kea writes its
// file whole, and the edit would be lost.
func (d *Driver) unread(ctx context.Context, running map[string]any) error {
	if d.file == "" {
		return nil
	}
	sum, err := digest(d.file)
	if err != nil || sum == d.own {
		return err
	}
	raw, err := os.ReadFile(d.file)
	if err != nil {
		return fmt.Errorf("read Kea's file: %w", err)
	}
	if inFile, err := parseFile(raw); err == nil && d.readAs(inFile, running) {
		return nil
	}
	info, err := os.Stat(d.file)
	if err != nil {
		return fmt.Errorf("read Kea's file: %w", err)
	}
	var status struct {
		Reload int64 `json:"reload"` // whole seconds since Kea was configured
		PID    int   `json:"pid"`
	}
	asked := time.Now()
	if err := d.command(ctx, "status-get", nil, &status); err != nil {
		return err
	}
	// Kea has read the file, and was configured by somebody's command since.
	if info.ModTime().Before(asked.Add(-time.Duration(status.Reload+1) * time.Second)) {
		return nil
	}
	// It was written before the program that runs began, which read it then: within one second Kea does
	// not tell.
	if p, runs := base.ProcessOf(status.PID, "kea-dhcp4"); runs && !info.ModTime().After(p.Began) {
		return nil
	}
	return fmt.Errorf("%s has an edit that Kea has not read, or was written in the second in which Kea read it, and would be overwritten: have Kea read it once more (config-reload), or take the edit back", d.file)
}

// readAs reports whether Kea runs what the file has.
func (d *Driver) readAs(inFile, running map[string]any) bool {
	for _, name := range d.local { // Kea adds defaults to these too
		v, there := inFile[name]
		if there && !contains(running[name], v) {
			return false
		}
	}
	a, errA := d.item(inFile, "")
	b, errB := d.item(running, "")
	if errA != nil || errB != nil {
		return false
	}
	moved, err := base.Moved(d, a, b)
	return err == nil && !moved
}

// contains reports whether all of a part is in the whole.
func contains(whole, part any) bool {
	switch part := part.(type) {
	case map[string]any:
		m, is := whole.(map[string]any)
		for name, v := range part { // order-free: all have to be there
			is = is && contains(m[name], v)
		}
		return is
	case []any:
		list, is := whole.([]any)
		is = is && len(list) == len(part)
		for i := 0; is && i < len(part); i++ {
			is = contains(list[i], part[i])
		}
		return is
	}
	return same(whole, part)
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
