package janus

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/drivers/base"
)

const (
	maxFile = 16 << 20
	quiet   = 100 * time.Millisecond // for which a file that others write stays as it is: Janus writes in place
)

// configFile is the configuration file of the streaming plugin.
type configFile struct {
	path string
	last *content
}

// content is the file as it was read.
type content struct {
	stamp     stamp
	byJanus   bool // Janus wrote it last, from its memory
	adminKey  string
	stringIDs bool
	entries   map[string]map[string]any // by name
	names     map[string]string         // by id
	secrets   map[string]string         // by id
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

func (f *configFile) stamp() stamp {
	info, err := os.Stat(f.path)
	if err != nil {
		return stamp{}
	}
	return stampOf(info)
}

// read reads the file when nobody writes it. A file that is missing is no empty one: without
// it Janus keeps nothing.
func (f *configFile) read(ctx context.Context) (*content, error) {
	for {
		info, err := os.Stat(f.path)
		if err != nil {
			return nil, fmt.Errorf("read the configuration file of Janus: %w", err)
		}
		now := stampOf(info)
		if f.last != nil && f.last.stamp == now {
			return f.last, nil
		}
		if age := time.Since(info.ModTime()); age < 0 || age >= quiet {
			return f.parse(now)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s is being written: %w", f.path, ctx.Err())
		case <-time.After(quiet / 4):
		}
	}
}

// written reads the file right after Janus answered that it wrote it.
func (f *configFile) written() (*content, error) { return f.parse(f.stamp()) }

func (f *configFile) parse(now stamp) (*content, error) {
	raw, err := readBounded(f.path)
	if err != nil {
		return nil, err
	}
	if f.stamp() != now {
		return nil, fmt.Errorf("%s is being written", f.path)
	}
	all, err := parseJcfg(raw)
	if err != nil {
		return nil, fmt.Errorf("%s does not parse: %w", f.path, err)
	}
	c := &content{stamp: now, byJanus: writtenByJanus(raw, time.Unix(0, now.when)), entries: map[string]map[string]any{}, names: map[string]string{}, secrets: map[string]string{}}
	for name, v := range all { // order-free: each by itself
		m, is := v.(map[string]any)
		switch {
		case !is:
			continue
		case name == "general":
			c.adminKey, _ = m["admin_key"].(string)
			typed(m, map[string]int{"string_ids": flag})
			c.stringIDs = m["string_ids"] == true
			continue
		}
		c.entries[name] = m
		if m["id"] != nil {
			id := fmt.Sprint(m["id"])
			c.names[id] = name
			c.secrets[id], _ = m["secret"].(string)
		}
	}
	f.last = c
	return c, nil
}

// generated is the line at the head of a file that Janus wrote, with the time by its own zone.
const generated = "# File automatically generated on "

// writtenByJanus reports whether Janus wrote a file last: its head has the second of the file's time.
func writtenByJanus(raw []byte, when time.Time) bool {
	head, _, _ := bytes.Cut(bytes.TrimPrefix(raw, []byte("#\n")), []byte("\n"))
	text, is := bytes.CutPrefix(head, []byte(generated))
	if !is {
		return false
	}
	at, err := time.ParseInLocation(time.ANSIC, string(text), time.Local)
	after := when.Sub(at)
	return err == nil && after >= 0 && after < 2*time.Second
}

// startedWith reports whether the file is as it was when Janus started, which read it then.
func (d *Driver) startedWith(c *content) bool {
	var of []base.Process
	for _, p := range base.Processes("janus") {
		if folder := folderOf(p.Args); folder == "" || filepath.Clean(folder) == filepath.Clean(d.o.ConfigDir) {
			of = append(of, p)
		}
	}
	return len(of) == 1 && !time.Unix(0, c.stamp.when).After(of[0].Began)
}

// folderOf is the folder of configuration files that a command line of Janus names, or "".
func folderOf(args []string) string {
	for i, arg := range args {
		if folder, is := strings.CutPrefix(arg, "--configs-folder="); is {
			return folder
		}
		if (arg == "-F" || arg == "--configs-folder") && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// apiSecret is what Janus wants in every request, if anything.
func apiSecret(dir string) string {
	raw, err := readBounded(filepath.Join(dir, "janus.jcfg"))
	if err != nil {
		return ""
	}
	all, err := parseJcfg(raw)
	if err != nil {
		return ""
	}
	s, _ := member(all, "general")["api_secret"].(string)
	return s
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", path, maxFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return raw, nil
}
