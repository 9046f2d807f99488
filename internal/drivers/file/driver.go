package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/nodesdk"
)

// Config says which file, and where in it the objects stand.
type Config struct {
	Path string
	// Format is json, yaml or toml; by default what the file's name ends with.
	Format string
	// At is the path of the members of the document that leads to the objects, separated by
	// slashes; empty is the document itself.
	At string
	// Kind of the objects: flow by default.
	Kind string
	// Identity is the member that names an object in a list, or several as in kind,metadata/name. If
	// it is empty, objects are members of a map, by name.
	Identity string
	// Document says which one of a YAML file has the objects: its number, members of it as in
	// kind=ConfigMap,metadata/name=web, or * where each document is an object.
	Document string
	// Validate is run on a candidate before it takes the file's place, Reload after that;
	// {} in them is the file. The first refuses the change, the second takes it back.
	Validate, Reload []string
	// Timeout is that of one command: 10 s by default.
	Timeout time.Duration
}

// Bounds and intervals.
const (
	maxFile        = 16 << 20
	watchInterval  = 250 * time.Millisecond
	quiet          = 100 * time.Millisecond // for which a file that others write stays as it is
	attempts       = 5
	defaultTimeout = 10 * time.Second
)

// Driver is a nodesdk.Driver.
type Driver struct {
	o        Config
	at       []string
	format   format
	own      stamp // of the file as this driver wrote it
	reloaded bool
}

// format edits documents of one syntax. An edit is of the object with an id among those at
// a path; nil removes it. The document was parsed before.
type format interface {
	parse(raw []byte) (any, error)
	edit(raw []byte, at []string, named identity, id string, to map[string]any) ([]byte, error)
}

// New returns a driver of a file, which need not be there yet.
func New(o Config) (*Driver, error) {
	if o.Format == "" {
		o.Format = strings.TrimPrefix(filepath.Ext(o.Path), ".")
	}
	formats := map[string]format{"json": jsonFormat{}, "yaml": yamlFormat{o.Document}, "yml": yamlFormat{o.Document}, "toml": tomlFormat{}}
	f := formats[o.Format]
	if f == nil || o.Path == "" {
		return nil, fmt.Errorf("file %q of format %q: expected one of json, yaml, toml", o.Path, o.Format)
	}
	if _, is := f.(yamlFormat); o.Document != "" && (!is || o.Document == allDocuments && (o.Identity == "" || o.At != "")) {
		return nil, fmt.Errorf("document %q: only YAML has documents, and where each is an object, identity names it and at stays empty", o.Document)
	}
	if o.Kind == "" {
		o.Kind = nodeconfig.Flow
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	d := &Driver{o: o, format: f, reloaded: len(o.Reload) == 0}
	if o.At != "" {
		d.at = strings.Split(strings.Trim(o.At, "/"), "/")
	}
	return d, nil
}

func (d *Driver) identity() identity { return identity(d.o.Identity) }

// content is a file as it was read.
type content struct {
	path    string // without links
	raw     []byte
	doc     any
	objects map[string]any // each a map[string]any, or an *unread
}

// Snapshot implements nodesdk.Driver. A file that is missing, being written, or does not
// parse is an error, and never an empty configuration.
func (d *Driver) Snapshot(ctx context.Context) (nodesdk.State, error) {
	c, err := d.read(ctx)
	if err != nil {
		return nodesdk.State{}, err
	}
	if !d.reloaded { // a crash may have come between a change and its reload
		if err := d.run(ctx, d.o.Reload, c.path); err != nil {
			return nodesdk.State{}, fmt.Errorf("reload: %w", err)
		}
		d.reloaded = true
	}
	s := nodesdk.State{Complete: true}
	for _, id := range slices.Sorted(maps.Keys(c.objects)) {
		s.Items = append(s.Items, nodesdk.Item{Kind: d.o.Kind, ID: id, Config: config(c.objects[id])})
	}
	return s, nil
}

// Normalize implements nodesdk.Driver: an object's name is no part of its config, unless it is the
// text of a number.
func (d *Driver) Normalize(it nodesdk.Item) nodesdk.Item {
	if d.o.Identity == "" || d.identity().path() {
		return it
	}
	v, err := nodeconfig.Decode(it.Config)
	m, is := v.(map[string]any)
	if err != nil || !is {
		return it
	}
	if m[d.o.Identity] != implied(it.ID) {
		return it
	}
	delete(m, d.o.Identity)
	raw, err := json.Marshal(m)
	if err != nil {
		return it
	}
	it.Config = raw
	return it
}

// Apply implements nodesdk.Driver.
func (d *Driver) Apply(ctx context.Context, op nodesdk.Op) error {
	var to map[string]any
	if !op.Delete {
		v, err := nodeconfig.Decode(op.Config)
		m, is := v.(map[string]any)
		if err != nil || !is {
			return &nodesdk.InvalidError{Problems: []nodesdk.Problem{{Message: "the config is no object"}}}
		}
		if name, is := d.identity().name(m); d.o.Identity != "" && name != op.ID && (is || m[d.o.Identity] != nil || d.identity().path()) {
			return &nodesdk.InvalidError{Problems: []nodesdk.Problem{{Field: d.o.Identity, Message: "it is not the object's name"}}}
		}
		to = m
	}
	for range attempts {
		err := d.try(ctx, op, to)
		if !errors.Is(err, disk.ErrChanged) {
			return err
		}
	}
	return nodesdk.ErrConflict
}

func (d *Driver) try(ctx context.Context, op nodesdk.Op, to map[string]any) error {
	c, err := d.read(ctx)
	if err != nil {
		return err
	}
	now, there := c.objects[op.ID]
	switch {
	case there != (op.Was != nil):
		return nodesdk.ErrConflict
	case !there && op.Delete:
		return nil
	case there:
		if same, err := d.same(op, config(now)); err != nil || !same {
			return errors.Join(err, nodesdk.ErrConflict)
		}
	}
	next, err := d.edited(c, op.ID, to)
	if err != nil {
		return refusal(err)
	}
	if bytes.Equal(next, c.raw) {
		return nil
	}
	return d.replace(ctx, c, next)
}

// same reports whether the file's object is the one that was read before the operation.
func (d *Driver) same(op nodesdk.Op, raw json.RawMessage) (bool, error) {
	now, err := nodeconfig.Canonical(d.Normalize(nodesdk.Item{Kind: op.Kind, ID: op.ID, Config: raw}).Config)
	if err != nil {
		return false, err
	}
	was, err := nodeconfig.Canonical(op.Was.Config)
	return bytes.Equal(now, was), err
}

// edited is the file with one object changed. What the edit made is parsed again: the
// object has to be what was asked, and all else as it was, by value and kind.
func (d *Driver) edited(c *content, id string, to map[string]any) ([]byte, error) {
	if u, is := c.objects[id].(*unread); is {
		return nil, fmt.Errorf("the object cannot be read, so it is not edited: %w", u)
	}
	if to != nil && d.o.Identity != "" && !d.identity().path() && to[d.o.Identity] == nil {
		name, err := d.named(c, id)
		if err != nil {
			return nil, err
		}
		to[d.o.Identity] = name
	}
	if to != nil {
		if err := lost(nil, c.objects[id], to); err != nil {
			return nil, err
		}
	}
	next, err := d.format.edit(c.raw, d.at, d.identity(), id, to)
	if f := (*fieldError)(nil); errors.As(err, &f) && len(f.path) > len(d.at)+1 {
		return nil, &fieldError{f.path[len(d.at)+1:], f.err} // as the object has it
	}
	if err != nil {
		return nil, fmt.Errorf("the object cannot be edited by itself in %s: %w", c.path, err)
	}
	doc, err := d.format.parse(next)
	if err != nil {
		return nil, fmt.Errorf("the object cannot be edited by itself in %s: the file would not parse", c.path)
	}
	want, err := withObject(c.doc, d.at, d.identity(), id, to)
	if err != nil || !same(doc, want) {
		return nil, fmt.Errorf("the object cannot be edited by itself in %s: other parts of the file depend on it, or the format has no such value", c.path)
	}
	return next, nil
}

// refusal is an edit that was refused before anything was changed.
func refusal(err error) error {
	p := nodesdk.Problem{Message: err.Error()}
	if l := (*lostError)(nil); errors.As(err, &l) {
		p.Field = nodeconfig.Field(l.path)
	} else if f := (*fieldError)(nil); errors.As(err, &f) {
		p = nodesdk.Problem{Field: nodeconfig.Field(f.path), Message: f.err.Error()}
	}
	return &nodesdk.InvalidError{Code: "invalid", Problems: []nodesdk.Problem{p}}
}

// replace puts a file in the place of the one that was read, if it still is that one.
func (d *Driver) replace(ctx context.Context, c *content, next []byte) error {
	info, err := os.Stat(c.path)
	if err != nil {
		return fmt.Errorf("read the file: %w", err)
	}
	err = disk.ReplaceOnly(c.path, c.raw, next, info.Mode().Perm(), func(name string) error {
		if owner, is := info.Sys().(*syscall.Stat_t); is {
			if err := os.Chown(name, int(owner.Uid), int(owner.Gid)); err != nil {
				return fmt.Errorf("keep the owner of the file: %w", err)
			}
		}
		if err := d.run(ctx, d.o.Validate, name); err != nil {
			return &nodesdk.InvalidError{Code: "invalid", Problems: []nodesdk.Problem{{Message: strings.ReplaceAll(err.Error(), name, c.path)}}}
		}
		written, err := os.Stat(name)
		if err == nil {
			d.own = stampOf(written)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err = d.run(ctx, d.o.Reload, c.path); err == nil {
		return nil
	}
	return d.takeBack(ctx, c, next, fmt.Errorf("reload: %w", err))
}

// takeBack restores the file as it was before a change that could not be loaded.
func (d *Driver) takeBack(ctx context.Context, c *content, next []byte, cause error) error {
	ctx = context.WithoutCancel(ctx)
	info, err := os.Stat(c.path)
	if err != nil {
		return errors.Join(cause, err)
	}
	err = disk.ReplaceOnly(c.path, next, c.raw, info.Mode().Perm(), func(name string) error {
		if owner, is := info.Sys().(*syscall.Stat_t); is {
			return os.Chown(name, int(owner.Uid), int(owner.Gid))
		}
		return nil
	})
	switch {
	case errors.Is(err, disk.ErrChanged):
		return fmt.Errorf("%w; the file changed meanwhile and is left as it is", cause)
	case err == nil:
		err = d.run(ctx, d.o.Reload, c.path)
	}
	return errors.Join(cause, err)
}

// read reads the file when it is whole: it does not change while it is read, nor was it
// changed by somebody else a moment ago.
func (d *Driver) read(ctx context.Context) (*content, error) {
	path, err := filepath.EvalSymlinks(d.o.Path)
	if err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	for {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		if !info.Mode().IsRegular() || info.Size() > maxFile {
			return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxFile)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		age := time.Since(info.ModTime())
		after, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		if stampOf(after) == stampOf(info) && int64(len(raw)) == info.Size() && (age < 0 || age >= quiet || d.own == stampOf(info)) {
			return d.parsed(path, raw)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is being written: %w", path, ctx.Err())
		case <-time.After(quiet / 2):
		}
	}
}

func (d *Driver) parsed(path string, raw []byte) (*content, error) {
	c := &content{path: path, raw: raw}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	var err error
	if c.doc, err = d.format.parse(raw); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if c.objects, err = d.objects(c.doc); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// stamp tells one state of a file from another.
type stamp struct {
	inode      uint64
	size, when int64
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), when: info.ModTime().UnixNano()}
	if sys, is := info.Sys().(*syscall.Stat_t); is {
		s.inode = sys.Ino
	}
	return s
}

// Watch implements nodesdk.Watcher. It sees what rename, write and touch do, on any file
// system.
func (d *Driver) Watch(ctx context.Context, changed func()) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var last stamp
	for first := true; ; first = false {
		var now stamp
		if info, err := os.Stat(d.o.Path); err == nil {
			now = stampOf(info)
		}
		if now != last && !first {
			changed()
		}
		last = now
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
