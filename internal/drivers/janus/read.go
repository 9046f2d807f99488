package janus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

func (d *Driver) mountpoints(ctx context.Context, c *content, only string) (map[string]*mountpoint, error) {
	all, err := d.running(ctx, c, only)
	if err != nil {
		return nil, err
	}
	for name, entry := range c.entries { // order-free: each by itself
		if all[name] == nil {
			all[name] = &mountpoint{name: name}
		}
		m := all[name]
		m.file, m.fileHasID = loaded(name, entry), entry["id"] != nil
		if m.secret == "" {
			m.secret, _ = m.file["secret"].(string)
		}
	}
	return all, nil
}

// running reads what Janus runs.
func (d *Driver) running(ctx context.Context, c *content, only string) (map[string]*mountpoint, error) {
	if m, err := d.directly(ctx, c, only); err != nil || m != nil {
		return map[string]*mountpoint{only: m}, err
	}
	rows, err := d.list(ctx, c)
	if err != nil {
		return nil, err
	}
	all, ids := map[string]*mountpoint{}, map[string]string{}
	for _, row := range rows {
		id := idOf(row)
		var m *mountpoint
		plain := d.plainName(c, id)
		if plain == "" || only == "" {
			if m, err = d.infoOrKnown(ctx, c, id, row, only == ""); hasCode(err, noMountpoint) {
				continue // it was destroyed meanwhile
			} else if err != nil {
				return nil, err
			}
			plain = m.plain
		}
		name := c.nameFor(plain, id)
		if ids[name] != "" {
			name = plain + "#" + id
		}
		ids[name] = id
		if only != "" && only != name {
			continue
		}
		if m == nil {
			if m, err = d.info(ctx, c, id); hasCode(err, noMountpoint) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		m.name = name
		all[name] = m
	}
	d.remember(c, ids)
	return all, nil
}

// directly reads a mountpoint whose id is known, nil if it is none any more.
func (d *Driver) directly(ctx context.Context, c *content, name string) (*mountpoint, error) {
	_, id, _ := d.known(name)
	if id == "" {
		return nil, nil
	}
	plain := d.plainName(c, id)
	if c.nameFor(plain, id) != name && plain+"#"+id != name {
		return nil, nil
	}
	m, err := d.info(ctx, c, id)
	if hasCode(err, noMountpoint) || err == nil && m.plain != plain {
		return nil, nil
	}
	if m != nil {
		m.name = name
	}
	return m, err
}

// list lists what Janus runs, by id.
func (d *Driver) list(ctx context.Context, c *content) ([]map[string]any, error) {
	req := map[string]any{"request": "list"}
	if c.adminKey != "" {
		req["admin_key"] = c.adminKey
	}
	answer, err := d.api.request(ctx, req)
	if err != nil {
		return nil, err
	}
	all, is := answer["list"].([]any)
	if !is {
		return nil, errors.New("janus answers without a list of mountpoints")
	}
	var rows []map[string]any
	for _, row := range all {
		if r, is := row.(map[string]any); is {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b map[string]any) int { return cmp.Compare(idOf(a), idOf(b)) })
	return rows, nil
}

func idOf(row map[string]any) string { return fmt.Sprint(row["id"]) }

// nameFor is the name here of what Janus calls plain. There a name is no key: of several
// mountpoints the one that stands in the file has it, or else the first by id, and the others
// have their id in it.
func (c *content) nameFor(plain, id string) string {
	if inFile := c.entries[plain]["id"]; plain == "" || inFile != nil && fmt.Sprint(inFile) != id {
		return plain + "#" + id
	}
	return plain
}

// plainName is Janus' name of a mountpoint, if it was seen. It cannot be changed.
func (d *Driver) plainName(c *content, id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.plain[id]; n != "" {
		return n
	}
	return c.names[id]
}

// remember keeps what is known of those that are there.
func (d *Driver) remember(c *content, ids map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strings, d.ids = c.stringIDs, ids
	there := map[string]bool{}
	for _, id := range ids { // order-free: it fills a set
		there[id] = true
	}
	for id := range d.plain { // order-free: it removes
		if !there[id] {
			delete(d.plain, id)
			delete(d.answers, id)
			delete(d.secrets, id)
			delete(d.media, id)
		}
	}
}

// answer is what Janus reported of a mountpoint.
type answer struct {
	of string // what list and file had of it
	at time.Time
	m  mountpoint
}

func (d *Driver) infoOrKnown(ctx context.Context, c *content, id string, row map[string]any, known bool) (*mountpoint, error) {
	for _, m := range byMid(row["media"]) { // order-free: each by itself
		delete(m, "age_ms")
	}
	raw, err := json.Marshal([]any{row, c.entries[d.plainName(c, id)], c.secrets[id]})
	if err != nil {
		return nil, fmt.Errorf("mountpoint %s: %w", id, err)
	}
	if a := d.answers[id]; known && a.of == string(raw) && time.Since(a.at) < fresh {
		m := a.m
		return &m, nil
	}
	at := time.Now()
	m, err := d.info(ctx, c, id)
	if err != nil {
		return nil, err
	}
	d.answers[id] = answer{of: string(raw), at: at, m: *m}
	return m, nil
}

// info asks for a mountpoint, with its secret.
func (d *Driver) info(ctx context.Context, c *content, id string) (*mountpoint, error) {
	d.mu.Lock()
	tries := []string{d.secrets[id]}
	d.mu.Unlock()
	if s, is := c.secrets[id]; is && s != tries[0] {
		tries = append(tries, s)
	}
	var info map[string]any
	m := &mountpoint{id: id}
	for _, m.secret = range tries {
		answer, err := d.api.request(ctx, map[string]any{"request": "info", "id": c.ident(id), "secret": m.secret})
		if err != nil {
			return nil, err
		}
		info = member(answer, "info")
		if info["name"] != nil {
			break
		}
	}
	m.plain, _ = info["name"].(string)
	shown := m.plain != ""
	if !shown {
		m.plain, m.secret = d.plainName(c, id), ""
	}
	d.mu.Lock()
	d.plain[id] = m.plain
	d.mu.Unlock()
	var entry map[string]any
	if c.nameFor(m.plain, id) == m.plain {
		entry = c.entries[m.plain]
	}
	m.live = reported(m.plain, info, entry)
	if !shown {
		m.live[withheld] = true
	}
	return m, nil
}

// ident is an id in the type that Janus has for it.
func (c *content) ident(id string) any { return ident(c.stringIDs, id) }

func ident(isText bool, id string) any {
	if isText {
		return id
	}
	return json.Number(id)
}

// reported is a mountpoint as the API reports it, with what the file alone has.
func reported(name string, info, entry map[string]any) map[string]any {
	out := maps.Clone(info)
	rename := map[string]string{"videobufferkf": "bufferkf", "videosimulcast": "simulcast", "videosvc": "svc", "skew_compensation": "skew"}
	file := normal(name, entry)
	var kind string
	isFile, isRTSP := info["filename"] != nil, info["rtsp"] == true
	switch {
	case isFile && info["type"] == "live":
		kind = "live"
	case isFile:
		kind = "ondemand"
	case isRTSP:
		kind = "rtsp"
	default:
		kind = "rtp"
	}
	out["type"] = kind
	for _, runtime := range []string{"viewers", "host", "rtsp", "srtp"} {
		delete(out, runtime)
	}
	fileMedia := byMid(file["media"])
	var media []any
	list, _ := info["media"].([]any)
	for _, e := range list {
		shown, _ := e.(map[string]any)
		stream := map[string]any{}
		for name, v := range shown { // order-free: each by itself
			if to := rename[name]; to != "" {
				name = to
			}
			if _, is := ofMedia[name]; is {
				stream[name] = v
			}
		}
		copyMembers(stream, fileMedia[fmt.Sprint(stream["mid"])], unreportedOfMedia)
		media = append(media, stream)
	}
	delete(out, "media")
	if kind == "rtp" {
		out["media"] = media
		copyMembers(out, file, unreported)
	} else {
		copyMembers(out, file, slices.Sorted(maps.Keys(byType[kind])))
	}
	return normal(name, out)
}

func copyMembers(to, from map[string]any, names []string) {
	for _, n := range names {
		if _, there := to[n]; !there && from[n] != nil {
			to[n] = from[n]
		}
	}
}

func byMid(list any) map[string]map[string]any {
	out := map[string]map[string]any{}
	media, _ := list.([]any)
	for _, e := range media {
		if m, is := e.(map[string]any); is {
			out[fmt.Sprint(m["mid"])] = m
		}
	}
	return out
}

// loaded is what Janus would make of an entry of its file when it starts: members that it
// does not know are passed over.
func loaded(name string, entry map[string]any) map[string]any {
	out := normal(name, entry)
	kind := fmt.Sprint(out["type"])
	for member := range out { // order-free: it removes
		_, ofAny := common[member]
		_, ofThis := byType[kind][member]
		if !ofAny && !ofThis && !(member == "media" && kind == "rtp") {
			delete(out, member)
		}
	}
	for _, m := range byMid(out["media"]) { // order-free: each by itself
		for member := range m { // order-free: it removes
			if _, is := ofMedia[member]; !is {
				delete(m, member)
			}
		}
	}
	delete(out, "enabled") // Janus does not keep it
	delete(out, "permanent")
	return out
}
