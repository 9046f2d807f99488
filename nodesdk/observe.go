package nodesdk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// device is the driver with what the node remembers of it.
type device struct {
	cfg   *Config
	rules map[string]*nodeconfig.Rules
	log   *slog.Logger

	mu sync.Mutex // one call of the driver at a time
	st *store     // under mu
	// What was there when the configuration was read last, under mu.
	observed bool
	raw      string             // digest as the driver read it, empty if the node changed it since
	have     map[string]*object // by key
	problem  string             // why it was not complete

	events struct { // what a session reports; under its own lock, so that no device delays it
		sync.Mutex
		foreign uint64 // counts changes by somebody else
		effects map[string]Effect
		wake    chan struct{}
	}
}

func newDevice(cfg *Config, st *store) *device {
	d := &device{cfg: cfg, rules: map[string]*nodeconfig.Rules{}, log: cfg.Log, st: st, have: map[string]*object{}}
	for _, c := range cfg.Collections {
		d.rules[c.Kind] = rulesOf(c)
	}
	d.events.effects, d.events.wake = map[string]Effect{}, make(chan struct{}, 1)
	return d
}

func (d *device) clean(text string) string { return d.st.clean(text) }

// snapshot reads the whole configuration.
func (d *device) snapshot(ctx context.Context) *Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.observe(context.WithoutCancel(ctx))
	out := &Snapshot{Generation: d.st.ops.Generation, Op: d.st.ops.Op, Complete: err == nil, Instance: d.instance(), Objects: []Object{}}
	if err != nil {
		out.Error = d.st.clean(err.Error())
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(d.have)) {
		out.Objects = append(out.Objects, *d.message(d.have[key]))
	}
	if raw, err := json.Marshal(out); err != nil || len(raw) > MaxFromNode-1024 {
		out.Complete, out.Objects = false, []Object{}
		out.Error = fmt.Sprintf("the configuration is of more than the %d bytes that fit into a message", MaxFromNode)
	}
	return out
}

// instance names the configuration: another state folder is another one, for its digests
// mean nothing to who has those of this one.
func (d *device) instance() string {
	if d.st.ops.Device == "" {
		return d.st.id.Instance
	}
	return d.st.id.Instance + "/" + d.st.ops.Device
}

// observe reads the configuration and notices what somebody else changed.
func (d *device) observe(ctx context.Context) error {
	first := !d.observed
	have, raw, device, err := d.readAll(ctx)
	if ctx.Err() != nil { // stopped in the middle, which says nothing about the device
		return ctx.Err()
	}
	d.observed = true
	if err == nil {
		err = d.st.saveVault()
	}
	if err == nil && have != nil {
		err = d.finish(have)
	}
	text := ""
	if err != nil {
		text = d.st.clean(err.Error())
	}
	flipped := (text == "") != (d.problem == "") && !first
	if text != d.problem && text != "" {
		d.log.Warn("the configuration cannot be read", "error", text)
	}
	d.problem = text
	whole := d.st.ops.Whole
	if err == nil && have != nil {
		d.have, d.raw = have, raw
		whole = wholeOf(have)
	}
	if !flipped && whole == d.st.ops.Whole && (err != nil || device == d.st.ops.Device) {
		return err
	}
	d.st.ops.Whole = whole
	if err == nil {
		d.st.ops.Device = device
	}
	d.st.ops.Generation++
	if serr := d.st.saveOps(); serr != nil {
		return errors.Join(err, serr)
	}
	if !first {
		d.report(func() { d.events.foreign++ })
	}
	return err
}

// readAll returns nil objects where nothing differs from last time.
func (d *device) readAll(ctx context.Context) (have map[string]*object, raw, device string, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	var s State
	err = d.guard("Snapshot", func() (err error) { s, err = d.cfg.Driver.Snapshot(ctx); return err })
	switch {
	case err != nil:
		return nil, "", "", err
	case !s.Complete:
		return nil, "", "", errors.New("the device gave a part of its configuration only")
	case len(s.Items) > MaxObjects:
		return nil, "", "", fmt.Errorf("the device has %d objects, at most %d are supported", len(s.Items), MaxObjects)
	}
	raw = rawOf(s)
	if raw == d.raw && !d.unfinished() {
		return nil, raw, s.Instance, nil
	}
	have = make(map[string]*object, len(s.Items))
	for _, it := range s.Items {
		o, err := d.object(it)
		if err != nil {
			return nil, "", "", err
		}
		key := keyOf(o.item.Kind, o.item.ID)
		if have[key] != nil {
			return nil, "", "", fmt.Errorf("the device has %s %s twice", o.item.Kind, o.item.ID)
		}
		have[key] = o
	}
	return have, raw, s.Instance, nil
}

func (d *device) unfinished() bool {
	for _, r := range d.st.ops.Records {
		if r.Begun != nil {
			return true
		}
	}
	return false
}

// own notes a change that the node made itself, which is none by somebody else.
func (d *device) own(key string, now *object) {
	d.raw = "" // what it was may come back by somebody else's hand
	before := wholeOf(d.have)
	if now == nil {
		delete(d.have, key)
	} else {
		d.have[key] = now
	}
	if d.st.ops.Whole != before { // not read yet, or not complete: the next reading says
		return
	}
	if whole := wholeOf(d.have); whole != before {
		d.st.ops.Whole = whole
		d.st.ops.Generation++
	}
}

func wholeOf(have map[string]*object) string {
	h := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(have)) {
		_, _ = io.WriteString(h, have[key].etag)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// rawOf is a digest of what the driver read, in any order.
func rawOf(s State) string {
	items := slices.SortedFunc(slices.Values(s.Items), func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	})
	h := sha256.New()
	for _, it := range items {
		for _, part := range []string{it.Kind, it.ID, string(it.Config)} {
			_, _ = io.WriteString(h, strconv.Itoa(len(part))+":"+part)
		}
	}
	_, _ = io.WriteString(h, s.Instance)
	return hex.EncodeToString(h.Sum(nil))
}

// report changes what a session reports, and wakes it.
func (d *device) report(change func()) {
	d.events.Lock()
	change()
	d.events.Unlock()
	select {
	case d.events.wake <- struct{}{}:
	default:
	}
}

// watch reads the configuration in intervals, and when the driver says that it changed.
func (d *device) watch(ctx context.Context) {
	changed := make(chan struct{}, 1)
	if w, is := d.cfg.Driver.(Watcher); is {
		go d.runWatcher(ctx, w, changed)
	}
	tick := time.NewTicker(d.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
		d.mu.Lock()
		_ = d.observe(ctx) // an error is what the next snapshot reports
		d.mu.Unlock()
	}
}

func (d *device) runWatcher(ctx context.Context, w Watcher, changed chan<- struct{}) {
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, time.Minute) {
		err := d.guard("Watch", func() error {
			return w.Watch(ctx, func() {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
		})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			d.log.Warn("the driver's watch ended, it begins again", "error", d.clean(err.Error()))
		}
		wait(ctx, pause)
	}
}

// probe asks the driver in intervals whether what was acknowledged is in effect.
func (d *device) probe(ctx context.Context) {
	p, is := d.cfg.Driver.(Prober)
	if !is {
		return
	}
	for wait(ctx, probeInterval) {
		d.mu.Lock()
		var items []Item
		for key, o := range d.have {
			if r := d.st.ops.Records[key]; r != nil && r.Op > 0 {
				items = append(items, o.item)
			}
		}
		d.mu.Unlock()
		now := map[string]Effect{}
		for _, it := range items {
			if e, ok := d.effectOf(ctx, p, it); ok {
				now[keyOf(it.Kind, it.ID)] = e
			}
		}
		if ctx.Err() == nil {
			d.report(func() { d.events.effects = now })
		}
	}
}

// effectOf is false where the device cannot tell, and logs why.
func (d *device) effectOf(ctx context.Context, p Prober, it Item) (Effect, bool) {
	ctx, cancel := context.WithTimeout(ctx, probeInterval)
	defer cancel()
	e := Effect{Kind: it.Kind, ID: it.ID}
	err := d.guard("Probe", func() (err error) { e.Effect, e.Detail, err = p.Probe(ctx, it); return err })
	if err != nil || e.Effect != InEffect && e.Effect != NotInEffect {
		return e, false
	}
	e.Detail = d.clean(e.Detail)
	return e, true
}

// probeNow is called with the lock.
func (d *device) probeNow(ctx context.Context, o *Object) string {
	p, is := d.cfg.Driver.(Prober)
	has := d.have[keyOf(o.Kind, o.ID)]
	if !is || has == nil {
		return ""
	}
	e, ok := d.effectOf(ctx, p, has.item)
	if !ok {
		return ""
	}
	return e.Effect
}

// wait is false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
