package janus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/nodesdk"
)

// Options say where Janus is.
type Options struct {
	// URL of its HTTP API: http://127.0.0.1:8088/janus by default.
	URL string
	// ConfigDir is the folder of its configuration files: /etc/janus by default. The driver
	// reads janus.plugin.streaming.jcfg there, with the admin_key and the secrets of
	// mountpoints, and the api_secret in janus.jcfg. It writes neither.
	ConfigDir string
}

// fresh is how long an answer about a mountpoint is used again by Snapshot while the list and
// the file have the same of it. What neither of them has is seen that much later; Apply
// compares with a new answer.
const fresh = 500 * time.Millisecond

// attempts to read file and API while neither changes.
const attempts = 5

// Driver is a nodesdk.Driver, a Reader and a Prober.
type Driver struct {
	o    Options
	file *configFile
	api  *client
	// own is the file when nothing in it was unread by Janus, which wrote or loaded it.
	own     stamp
	answers map[string]answer // by id

	mu      sync.Mutex
	strings bool                       // ids are texts
	secrets map[string]string          // by id, of mountpoints that this driver made
	names   map[string]string          // by id
	media   map[string]map[string]seen // by id and mid
}

// New returns a driver of a Janus, which need not run yet.
func New(o Options) (*Driver, error) {
	if o.URL == "" {
		o.URL = "http://127.0.0.1:8088/janus"
	}
	if o.ConfigDir == "" {
		o.ConfigDir = "/etc/janus"
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the address of Janus %q: expected http://host:port/janus", o.URL)
	}
	d := &Driver{o: o, file: &configFile{path: filepath.Join(o.ConfigDir, plugin+".jcfg")},
		answers: map[string]answer{}, secrets: map[string]string{}, names: map[string]string{}, media: map[string]map[string]seen{}}
	d.api = newClient(strings.TrimSuffix(o.URL, "/"), func() string { return apiSecret(o.ConfigDir) }, d.restarted)
	return d, nil
}

// mountpoint is one with what Janus runs and what its file has; nil where it has none.
type mountpoint struct {
	name, id   string
	secret     string
	live, file map[string]any
	fileHasID  bool
}

// Snapshot implements nodesdk.Driver.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	all, c, err := d.read(ctx, "")
	if err != nil {
		return nodesdk.State{}, err
	}
	if len(unread(all, "")) == 0 {
		d.own = c.stamp
	}
	s := nodesdk.State{Complete: true}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		it, err := all[name].item()
		if err != nil {
			return nodesdk.State{}, err
		}
		s.Items = append(s.Items, it)
	}
	return s, nil
}

// Read implements nodesdk.Reader.
func (d *Driver) Read(ctx context.Context, kind, id string) (nodesdk.Item, bool, error) {
	m, _, err := d.one(ctx, id)
	if err != nil || m == nil || kind != nodeconfig.Flow {
		return nodesdk.Item{}, false, err
	}
	it, err := m.item()
	return it, err == nil, err
}

func (d *Driver) one(ctx context.Context, name string) (*mountpoint, *content, error) {
	all, c, err := d.read(ctx, name)
	return all[name], c, err
}

// read reads the mountpoints by name, or what is needed to know the one of a name. File and
// API are of one moment: the file is the same before and after.
func (d *Driver) read(ctx context.Context, only string) (map[string]*mountpoint, *content, error) {
	for range attempts {
		c, err := d.file.read(ctx)
		if err != nil {
			return nil, nil, err
		}
		all, err := d.mountpoints(ctx, c, only)
		if err != nil {
			return nil, nil, err
		}
		if d.file.stamp() == c.stamp {
			return all, c, nil
		}
	}
	return nil, nil, errors.New("the configuration file of Janus changes all the time")
}

func (d *Driver) mountpoints(ctx context.Context, c *content, only string) (map[string]*mountpoint, error) {
	req := map[string]any{"request": "list"}
	if c.adminKey != "" {
		req["admin_key"] = c.adminKey
	}
	list, err := d.api.request(ctx, req)
	if err != nil {
		return nil, err
	}
	rows, is := list["list"].([]any)
	if !is {
		return nil, errors.New("janus answers without a list of mountpoints")
	}
	all, known := map[string]*mountpoint{}, map[string]bool{}
	for _, row := range rows {
		r, _ := row.(map[string]any)
		id := fmt.Sprint(r["id"])
		known[id] = true
		if name := d.name(c, id); only != "" && name != "" && name != only {
			continue
		}
		m, err := d.infoOrKnown(ctx, c, id, r, only == "")
		if hasCode(err, noMountpoint) {
			continue // it was destroyed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if all[m.name] != nil { // a name is no key in Janus
			m.name += "#" + id
		}
		all[m.name] = m
	}
	d.forget(c, known)
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

// name of a mountpoint whose name was seen before; a mountpoint cannot be renamed.
func (d *Driver) name(c *content, id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.names[id]; n != "" {
		return n
	}
	return c.names[id]
}

func (d *Driver) forget(c *content, known map[string]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strings = c.stringIDs
	for id := range d.names { // order-free: it removes
		if !known[id] {
			delete(d.names, id)
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
	raw, err := json.Marshal([]any{row, c.entries[d.name(c, id)], c.secrets[id]})
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
	m.name, _ = info["name"].(string)
	shown := m.name != ""
	if !shown {
		m.name, m.secret = d.name(c, id), ""
	}
	if m.name == "" {
		m.name = "#" + id
	}
	d.mu.Lock()
	d.names[id] = m.name
	d.mu.Unlock()
	m.live = reported(m.name, info, c.entries[m.name])
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

// config is the object: what Janus runs, and how its file differs.
func (m *mountpoint) config() map[string]any {
	if m.live == nil {
		return overlay(m.file, map[string]any{running: false})
	}
	out := maps.Clone(m.live)
	if m.file == nil {
		out["permanent"] = false
		return out
	}
	if !m.fileHasID {
		delete(out, "id") // another one at every start
	}
	if out[withheld] == true {
		return out
	}
	set, absent := map[string]any{}, []any{}
	for _, name := range differing(out, m.file) {
		switch v, there := m.file[name]; {
		case name == "enabled":
		case there:
			set[name] = v
		default:
			absent = append(absent, name)
		}
	}
	differs := map[string]any{}
	if len(set) > 0 {
		differs["set"] = set
	}
	if len(absent) > 0 {
		differs["absent"] = absent
	}
	if len(differs) > 0 {
		out[startup] = differs
	}
	return out
}

func (m *mountpoint) item() (nodesdk.Item, error) {
	raw, err := json.Marshal(m.config())
	if err != nil {
		return nodesdk.Item{}, fmt.Errorf("mountpoint %s: %w", m.name, err)
	}
	return nodesdk.Item{Kind: nodeconfig.Flow, ID: m.name, Config: raw}, nil
}
