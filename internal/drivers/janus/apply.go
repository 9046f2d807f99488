package janus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/drivers/base"
	"github.com/steadyfleet/steady/nodesdk"
)

// Apply implements nodesdk.Driver. Janus compares nothing: what somebody changes between the
// driver's own comparison and its request, within milliseconds, is not seen.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	now, c, err := d.one(ctx, op.ID)
	if err != nil {
		return err
	}
	have, err := now.itemOrNone()
	if err != nil {
		return err
	}
	if moved, err := base.Moved(d, have, op.Was, cause); err != nil || moved {
		return errors.Join(err, nodesdk.ErrConflict)
	}
	if now == nil && op.Delete {
		return nil
	}
	if err := d.mayWrite(ctx, c, op.ID); err != nil {
		return err
	}
	if op.Delete {
		return d.destroy(ctx, now, c)
	}
	config, err := base.Object(op.Config)
	if err != nil {
		return err
	}
	want := normal(op.ID, config)
	delete(want, cause)
	keepPorts(want, now)
	if p := problems(op.ID, want); len(p) > 0 {
		return &nodesdk.InvalidError{Code: "invalid", Problems: p}
	}
	if now != nil && now.live != nil && editable(now.config(), want) {
		return d.edit(ctx, now, want, c)
	}
	if p := d.busy(want, now); len(p) > 0 {
		return &nodesdk.InvalidError{Code: "port-in-use", Problems: p}
	}
	return d.replace(ctx, op.ID, now, want, c)
}

// mayWrite refuses a change while the file has edits of other mountpoints that Janus did not
// read: it writes its file whole, from its memory, and they would be lost. What it read and could not
// load it keeps in its memory and in its file.
func (d *Driver) mayWrite(ctx context.Context, c *content, except string) error {
	if c.stamp == d.own || c.byJanus || d.startedWith(c) {
		return nil
	}
	all, again, err := d.read(ctx, "")
	if err != nil {
		return err
	}
	if names := unread(all, except); len(names) > 0 {
		return fmt.Errorf("%s has another %s than Janus runs, and Janus would overwrite it: restart Janus, which reads it, or take the edit back", d.file.path, strings.Join(names, ", "))
	}
	d.own = again.stamp
	return nil
}

// unread lists the mountpoints that the file has otherwise than Janus runs them.
func unread(all map[string]*mountpoint, except string) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		m := all[name]
		if name != except && m.file != nil && (m.live == nil || m.config()[startup] != nil) {
			names = append(names, name)
		}
	}
	return names
}

// saved notes that Janus wrote its file.
func (d *Driver) saved() (*content, error) {
	c, err := d.file.written()
	if err == nil {
		d.own = c.stamp
	}
	return c, err
}

// editable reports whether Janus can make the one of the other without a viewer noticing.
// It sets values, and can remove none from its file.
func editable(now, want map[string]any) bool {
	for _, name := range differing(now, want) {
		switch name {
		case "description", "metadata", "pin", "secret":
			if s, is := want[name].(string); !is || s == "" {
				return false
			}
		case "is_private":
			if want[name] != true {
				return false
			}
		case "enabled":
		default:
			return false
		}
	}
	return true
}

func (d *Driver) edit(ctx context.Context, now *mountpoint, want map[string]any, c *content) error {
	req := map[string]any{"request": "edit", "id": c.ident(now.id), "secret": now.secret, "permanent": now.file != nil}
	changes := differing(now.config(), want)
	for _, name := range changes {
		if name != "enabled" {
			req["new_"+name] = want[name]
		}
	}
	secret, _ := want["secret"].(string)
	if len(changes) > 1 || want["enabled"] == now.live["enabled"] {
		if _, err := d.api.request(ctx, req); err != nil {
			return refusal(err)
		}
		d.made(now.id, now.plain, secret)
	}
	if want["enabled"] != now.live["enabled"] {
		if err := d.enable(ctx, now.id, secret, want["enabled"] != false, c); err != nil {
			return err
		}
	}
	if _, err := d.saved(); err != nil {
		return err
	}
	return d.verify(ctx, now.name, want)
}

func (d *Driver) enable(ctx context.Context, id, secret string, on bool, c *content) error {
	verb := "disable"
	if on {
		verb = "enable"
	}
	_, err := d.api.request(ctx, map[string]any{"request": verb, "id": c.ident(id), "secret": secret})
	return err
}

// destroy removes a mountpoint from Janus and from its file.
func (d *Driver) destroy(ctx context.Context, m *mountpoint, c *content) error {
	if m.live == nil {
		// Janus removes from its file only what runs.
		if err := d.create(ctx, m.name, placeholder, c); err != nil {
			return fmt.Errorf("remove what is in the file alone: %w", err)
		}
		m = &mountpoint{name: m.name, id: d.idFor(m.name, placeholder, c), file: m.file}
	}
	// Janus removes from its file what has the name: that may be another one.
	_, err := d.api.request(ctx, map[string]any{"request": "destroy", "id": c.ident(m.id), "secret": m.secret, "permanent": m.file != nil})
	if err != nil && !hasCode(err, noMountpoint) {
		return err
	}
	after, err := d.saved()
	if err == nil && after.entries[m.name] != nil {
		err = fmt.Errorf("janus destroyed %s, and has not removed it from its file", m.name)
	}
	return err
}

// placeholder is a mountpoint that Janus can always make.
var placeholder = map[string]any{"type": "rtp", "media": []any{map[string]any{"type": "data", "mid": "d", "port": json.Number("0")}}}

// replace makes a mountpoint, in the place of another one if there is one: its viewers are
// disconnected. What cannot be made, or would not be kept, leaves what was there before.
func (d *Driver) replace(ctx context.Context, name string, now *mountpoint, want map[string]any, c *content) error {
	if now != nil && now.live[withheld] == true {
		return errors.New("the mountpoint has another secret than Janus' file says, so it can be neither edited nor destroyed: restart Janus, or write the secret into the file")
	}
	err := d.exchange(ctx, name, now, want, c)
	if err == nil {
		return nil
	}
	if now == nil && !errors.As(err, new(*nodesdk.InvalidError)) {
		return err
	}
	if berr := d.takeBack(context.WithoutCancel(ctx), name, now, c); berr != nil {
		return fmt.Errorf("%w; what was there before could not be made again: %w", errors.New(err.Error()), berr)
	}
	return err
}

func (d *Driver) exchange(ctx context.Context, name string, now *mountpoint, want map[string]any, c *content) error {
	if now != nil && now.live == nil { // what is in the file alone is not removed before it is known that it can be made
		if err := d.create(ctx, name, want, c); err != nil {
			return err
		}
		now = &mountpoint{name: name, id: d.idFor(name, want, c), live: want, file: want}
		now.secret, _ = want["secret"].(string)
	}
	if now != nil {
		if err := d.destroy(ctx, now, c); err != nil {
			return err
		}
	}
	if err := d.create(ctx, name, want, c); err != nil {
		return err
	}
	return d.verify(ctx, name, want)
}

// takeBack makes a mountpoint as it was before.
func (d *Driver) takeBack(ctx context.Context, name string, was *mountpoint, c *content) error {
	if m, _, err := d.one(ctx, name); err != nil {
		return err
	} else if m != nil && m.live != nil {
		if err := d.destroy(ctx, m, c); err != nil {
			return err
		}
	}
	if was == nil || was.live == nil {
		return nil
	}
	old := maps.Clone(was.live)
	old["id"] = was.id
	if was.file == nil {
		old["permanent"] = false
	}
	return d.create(ctx, name, old, c)
}

// create makes a mountpoint that is not there.
func (d *Driver) create(ctx context.Context, name string, want map[string]any, c *content) error {
	req := maps.Clone(want)
	id := d.idFor(name, want, c)
	keep := want["permanent"] != false
	req["request"], req["name"], req["id"], req["permanent"] = "create", name, c.ident(id), keep
	delete(req, "enabled")
	if c.adminKey != "" {
		req["admin_key"] = c.adminKey
	}
	if want["type"] != "rtp" {
		if _, said := req["audio"]; !said {
			req["audio"] = want["type"] != "rtsp"
		}
	}
	if !c.stringIDs {
		if n, err := strconv.ParseUint(id, 10, 64); err != nil || n == 0 || strconv.FormatUint(n, 10) != id {
			return base.Invalid("id", "expected a number above zero: this Janus has no string_ids")
		}
	}
	answer, err := d.api.request(ctx, req)
	if err != nil {
		return refusal(err)
	}
	secret, _ := want["secret"].(string)
	d.made(id, name, secret)
	d.created(id, name)
	if want["enabled"] == false {
		if err := d.enable(ctx, id, secret, false, c); err != nil {
			return err
		}
	}
	if _, err := d.saved(); err != nil {
		return err
	}
	if keep && answer["permanent"] != true {
		return &nodesdk.InvalidError{Code: "not-kept", Problems: []nodesdk.Problem{{Message: "Janus cannot write its file " + d.file.path}}}
	}
	return nil
}

func (d *Driver) idFor(name string, want map[string]any, c *content) string {
	if id, is := want["id"].(string); is && id != "" {
		return id
	}
	if c.stringIDs {
		return name
	}
	return numericID(name)
}

func (d *Driver) made(id, name, secret string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plain[id], d.secrets[id] = name, secret
}

// verify refuses what Janus made something else of, such as a codec that it does not know,
// and what it would not have after a restart: version 1.1 writes some members into its file
// by names that it does not read.
func (d *Driver) verify(ctx context.Context, name string, want map[string]any) error {
	m, _, err := d.one(ctx, name)
	if err != nil {
		return err
	}
	if m == nil || m.live == nil {
		return fmt.Errorf("janus says that it made %s, and does not have it", name)
	}
	var out []nodesdk.Problem
	has := m.config()
	for _, field := range differing(has, want) {
		switch {
		case field == "id" && want["id"] == nil:
		case field == "media":
			out = append(out, mediaProblems(has["media"], want["media"])...)
		case field == startup:
			out = append(out, nodesdk.Problem{Message: fmt.Sprintf("Janus would have lost it after a restart: %s", strings.Join(differing(m.live, m.file), ", "))})
		default:
			out = append(out, nodesdk.Problem{Field: field, Message: "Janus makes something else of it"})
		}
	}
	if len(out) > 0 {
		return &nodesdk.InvalidError{Code: "not-kept", Problems: out}
	}
	return nil
}

func mediaProblems(has, want any) (out []nodesdk.Problem) {
	made := byMid(has)
	for mid, stream := range byMid(want) { // order-free: sorted below
		for _, field := range differing(made[mid], stream) {
			if field == "port" && stream["port"] == json.Number("0") {
				continue // any
			}
			out = append(out, nodesdk.Problem{Field: nodeconfig.Field([]string{"media", mid, field}), Message: "Janus makes something else of it"})
		}
	}
	slices.SortFunc(out, func(a, b nodesdk.Problem) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// refusal is an error of Janus by which it says that a mountpoint cannot be as it is.
func refusal(err error) error {
	var e *apiError
	if errors.As(err, &e) && (e.code == cannotCreate || e.code == 453 || e.code == 454) {
		return base.Invalid("", "%s", e.reason)
	}
	return err
}
