package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/release"
)

// repository is a release folder in a branch of a git repository. Git itself
// speaks to the remote, with a configuration of our own and nothing else: no
// hooks, filters, submodules, credential helpers or prompts. Nothing is checked
// out: objects are read one by one into the folder of the release.
type repository struct {
	name   string // as configured, without secrets
	url    *url.URL
	branch string // full name, or HEAD
	path   string // of the release inside the tree, "" for all of it
	o      Options
	git    string // the program
}

// lsTimeout bounds the question what a branch points at.
const lsTimeout = time.Minute

var (
	branchPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}$`) })
	objectPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })
)

func openGit(u *url.URL, o Options) (Source, error) {
	r := &repository{name: redacted(u), o: o, branch: "HEAD"}
	remote := *u
	remote.Scheme, remote.Fragment, remote.RawFragment = strings.TrimPrefix(u.Scheme, "git+"), "", ""
	r.url = &remote
	if u.RawQuery != "" {
		return nil, fmt.Errorf("source %s: a repository's URL has no query", r.name)
	}
	branch, path, _ := strings.Cut(u.Fragment, ":")
	if branch != "" {
		if !branchPattern().MatchString(branch) || strings.Contains(branch, "..") || strings.HasSuffix(branch, ".lock") {
			return nil, fmt.Errorf("source %s: %q is no name of a branch; expected #BRANCH:FOLDER", r.name, branch)
		}
		if r.branch = branch; !strings.HasPrefix(branch, "refs/") {
			r.branch = "refs/heads/" + branch
		}
	}
	r.path = strings.Trim(path, "/")
	if r.path != "" && !fs.ValidPath(r.path) {
		return nil, fmt.Errorf("source %s: %q is no folder inside a repository", r.name, path)
	}
	if c := o.Credentials; c != (Credentials{}) && remote.Scheme != "https" {
		return nil, fmt.Errorf("source %s: credentials are for https alone; ssh uses the keys of the user that runs the server", r.name)
	}
	if o.Cache == "" || !filepath.IsAbs(o.Cache) {
		return nil, errors.New("a git source needs a folder for its objects")
	}
	var err error
	if r.git, err = exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("source %s needs the program git: %w", r.name, err)
	}
	return r, nil
}

func (r *repository) Name() string { return r.name }

// Fetch asks what the branch points at, and if that is new, fetches that one
// commit and unpacks its folder. The validator is the commit and the folder's
// tree: a commit that leaves the folder alone is no news.
func (r *repository) Fetch(ctx context.Context, into, last string) (string, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	known, tree, _ := strings.Cut(last, " ")
	if err := r.prepare(ctx); err != nil {
		return "", false, err
	}
	tip, err := r.tip(ctx)
	if err != nil || tip == known && tree != "" {
		return last, false, err
	}
	if err := r.fetch(ctx); err != nil {
		return "", false, err
	}
	commit, err := r.parse(ctx, "refs/steady/release^{commit}")
	if err != nil {
		return "", false, err
	}
	found, err := r.parse(ctx, commit+":"+r.path)
	if err != nil {
		return "", false, err
	}
	now := commit + " " + found
	if found == tree {
		return now, false, nil
	}
	if err := r.unpack(ctx, found, into); err != nil {
		return "", false, err
	}
	return now, true, nil
}

// prepare makes the cache, and begins anew when it has grown past two releases:
// objects that are no longer needed are never collected.
func (r *repository) prepare(ctx context.Context) error {
	size, err := sizeOf(r.o.Cache)
	if err == nil && size > 2*r.o.Caps.Bytes {
		err = os.RemoveAll(r.o.Cache)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.o.Cache, "home"), 0o700)
	}
	if err == nil {
		var text string
		if text, err = r.config(ctx); err == nil {
			err = os.WriteFile(filepath.Join(r.o.Cache, "config"), []byte(text), 0o600)
		}
	}
	if err := unpacked(err); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(r.repo(), "HEAD")); err == nil {
		return nil
	}
	return r.run(ctx, nil, nil, "init", "--quiet", "--bare", "--template=", r.repo())
}

func (r *repository) repo() string { return filepath.Join(r.o.Cache, "objects.git") }

// config is all the configuration that git gets.
func (r *repository) config(ctx context.Context) (string, error) {
	var b strings.Builder
	section := func(name string, lines ...string) {
		fmt.Fprintf(&b, "[%s]\n", name)
		for i := 0; i+1 < len(lines); i += 2 {
			fmt.Fprintf(&b, "\t%s = %q\n", lines[i], lines[i+1])
		}
	}
	section("core", "hooksPath", "/dev/null", "fsmonitor", "false", "symlinks", "false", "askPass", "", "attributesFile", "/dev/null",
		"bigFileThreshold", "1m", "sshCommand", "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oForwardAgent=no -oClearAllForwardings=yes -oPermitLocalCommand=no -oConnectTimeout=30")
	section("protocol", "allow", "never")
	section(`protocol "`+r.url.Scheme+`"`, "allow", "always")
	section("credential", "helper", "")
	section("submodule", "recurse", "false")
	section("fetch", "recurseSubmodules", "false", "fsckObjects", "true", "unpackLimit", "1", "writeCommitGraph", "false")
	section("transfer", "fsckObjects", "true", "bundleURI", "false")
	section("gc", "auto", "0")
	section("maintenance", "auto", "false")
	if r.url.Scheme == "file" {
		// Git refuses to read a repository of another user; this one is what the
		// operator named.
		section("safe", "directory", r.url.Path, "directory", strings.TrimSuffix(r.url.Path, "/")+"/.git")
	}
	http := []string{"followRedirects", "false", "lowSpeedLimit", fmt.Sprint(minRate), "lowSpeedTime", fmt.Sprint(max(1, int(r.o.Stall.Seconds())))}
	if len(r.o.CA) > 0 {
		path := filepath.Join(r.o.Cache, "ca.pem")
		if err := os.WriteFile(path, r.o.CA, 0o600); err != nil {
			return "", err
		}
		http = append(http, "sslCAInfo", path)
	}
	if r.url.Scheme == "http" || r.url.Scheme == "https" {
		pin, err := r.pinned(ctx)
		if err != nil {
			return "", err
		}
		if pin != "" {
			http = append(http, "curloptResolve", pin)
		}
	}
	section("http", http...)
	return b.String(), nil
}

// pinned resolves the remote's name, refuses what guarded refuses, and has git use
// the address that was checked. A proxy resolves names by itself.
func (r *repository) pinned(ctx context.Context) (string, error) {
	host, port := r.url.Hostname(), r.url.Port()
	if proxy, err := proxyOf(r.url); err != nil || proxy {
		return "", err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if own := ended(ctx, err); own != nil {
			return "", own
		}
		return "", failf(Unreachable, "%w", err)
	}
	var texts []string
	for _, ip := range ips {
		if err := guarded(host).allow(ip); err != nil {
			return "", err
		}
		text := ip.Unmap().String()
		if ip.Unmap().Is6() {
			text = "[" + text + "]"
		}
		texts = append(texts, text)
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.url.Scheme]
	}
	if net.ParseIP(host) != nil {
		return "", nil // it is its own address
	}
	return host + ":" + port + ":" + strings.Join(texts, ","), nil
}

// tip asks the remote what the branch points at.
func (r *repository) tip(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lsTimeout)
	defer cancel()
	out := &bounded{left: 64 << 10}
	if err := r.run(ctx, nil, out, "ls-remote", "--quiet", "--", r.url.String(), r.branch); err != nil {
		return "", err
	}
	for line := range strings.Lines(string(out.kept)) {
		id, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if ref == r.branch && objectPattern().MatchString(id) {
			return id, nil
		}
	}
	return "", failf(Refused, "the repository has no branch %s", strings.TrimPrefix(r.branch, "refs/heads/"))
}

// fetch brings one commit. A cache that git cannot go on with is thrown away: the
// next attempt begins anew.
func (r *repository) fetch(ctx context.Context) error {
	err := r.run(ctx, nil, nil, "--git-dir="+r.repo(), "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force",
		"--no-auto-maintenance", "--no-write-fetch-head", "--", r.url.String(), "+"+r.branch+":refs/steady/release")
	if err != nil && ctx.Err() == nil {
		if gone := os.RemoveAll(r.o.Cache); gone != nil {
			return failf(Unusable, "%w", gone)
		}
	}
	return err
}

// parse returns the object that an expression names.
func (r *repository) parse(ctx context.Context, expression string) (string, error) {
	out := &bounded{left: 4 << 10}
	err := r.run(ctx, nil, out, "--git-dir="+r.repo(), "rev-parse", "--quiet", "--verify", "--end-of-options", expression)
	id := strings.TrimSpace(string(out.kept))
	switch {
	case err == nil && objectPattern().MatchString(id):
		return id, nil
	case ended(ctx, err) != nil:
		return "", ended(ctx, err)
	}
	_, path, _ := strings.Cut(expression, ":")
	return "", failf(Content, "the branch %s has no folder %q", strings.TrimPrefix(r.branch, "refs/heads/"), path)
}

// unpack reads the release out of a tree.
func (r *repository) unpack(ctx context.Context, tree, into string) error {
	files, err := r.list(ctx, tree)
	if err != nil {
		return err
	}
	packed := r.pack(ctx, files)
	defer packed.Close()
	err = release.Unpack(packed, into, r.o.Caps)
	return cmp.Or(ended(ctx, err), unpacked(err))
}

// sizeOf adds up the files below a folder, which need not exist.
func sizeOf(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return total, err
}
