package disk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// index is what git knows of a folder; its zero value is that of one which git does not
// track.
type index struct {
	files     map[string]fs.FileMode // nil where git has no part in it
	folders   map[string]bool        // those with a file, and the folder itself
	sparse    map[string]bool        // files that git keeps out of this checkout
	changed   map[string]bool        // files that differ from the commit
	untracked map[string]bool        // files that are neither tracked nor ignored
	converted map[string]bool        // files that git wrote otherwise than it keeps them
	links     map[string]bool
	commit    string
	// diskModes reports that the file system keeps who may execute a file.
	diskModes bool
}

func (x *index) tracks() bool { return x.files != nil }

// readIndex asks git about a folder.
func readIndex(dir string, o CheckoutOptions) (*index, error) {
	if slices.Contains(o.Also, ".") || !inRepository(dir) {
		return &index{}, nil
	}
	x := &index{files: map[string]fs.FileMode{}, folders: map[string]bool{"": true, ".": true}, sparse: map[string]bool{},
		changed: map[string]bool{}, untracked: map[string]bool{}, converted: map[string]bool{}, links: map[string]bool{}, diskModes: true}
	if err := x.list(dir, ""); err != nil {
		return nil, err
	}
	if _, tracked := x.files[o.Main]; !tracked {
		return &index{}, nil // nothing of it was added yet
	}
	for _, name := range o.Also {
		if err := x.also(dir, name); err != nil {
			return nil, err
		}
	}
	if mode, err := git(dir, "config", "--type=bool", "core.fileMode"); err == nil {
		x.diskModes = strings.TrimSpace(mode) != "false"
	}
	if commit, err := git(dir, "rev-parse", "--verify", "--quiet", "HEAD"); err == nil {
		x.commit = strings.TrimSpace(commit)
		changed, err := git(dir, "diff", "--name-only", "-z", "--relative", "--no-ext-diff", "--no-textconv", "HEAD", "--", ".")
		if err != nil {
			return nil, err
		}
		fill(x.changed, changed)
	}
	if err := x.convert(dir); err != nil {
		return nil, err
	}
	others, err := git(dir, "ls-files", "-z", "--others", "--exclude-standard", "--", ".")
	fill(x.untracked, others)
	return x, err
}

// convert finds files that the settings of a checkout, and not of the repository, had git write in
// another form: with other line ends, or as a file in the place of a link.
func (x *index) convert(dir string) error {
	for name := range x.links { // order-free: it fills a set
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() && !x.changed[name] {
			x.converted[name] = true
		}
	}
	autocrlf, _ := git(dir, "config", "core.autocrlf") // unset is an error
	eol, _ := git(dir, "config", "core.eol")
	if strings.TrimSpace(autocrlf) != "true" && strings.TrimSpace(eol) != "crlf" {
		return nil
	}
	out, err := git(dir, "ls-files", "-z", "--eol", "--", ".")
	for line := range strings.SplitSeq(out, "\x00") { // i/lf w/crlf attr/text=auto<tab>name
		head, name, _ := strings.Cut(line, "\t")
		if in, on, ok := strings.Cut(head, "w/"); ok && strings.HasPrefix(in, "i/lf") && strings.HasPrefix(on, "crlf") && !strings.Contains(on, "eol=crlf") && !x.changed[name] {
			x.converted[name] = true
		}
	}
	return err
}

func fill(set map[string]bool, list string) {
	for name := range strings.SplitSeq(list, "\x00") {
		if name != "" {
			set[name] = true
		}
	}
}

// inRepository reports whether git may track a folder. It runs nothing.
func inRepository(dir string) bool {
	if os.Getenv("GIT_DIR") != "" {
		return true
	}
	at, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return true
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}

// list adds what git tracks in a folder, and in the submodules of it.
func (x *index) list(dir, prefix string) error {
	out, err := git(dir, "ls-files", "-z", "-v", "--stage", "--", ".")
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(out, "\x00") {
		head, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) < 2 {
			continue
		}
		full := path.Join(prefix, name)
		if strings.ToUpper(fields[0]) != fields[0] { // git does not look whether it changed (--assume-unchanged)
			x.changed[full] = true
		}
		switch tag, mode := strings.ToUpper(fields[0]), fields[1]; {
		case mode == "160000":
			if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name), ".git")); err != nil {
				x.sparse[full] = true
				x.add(full, 0o644)
				continue
			}
			if err := x.list(filepath.Join(dir, filepath.FromSlash(name)), full); err != nil {
				return err
			}
		case tag == "S":
			x.sparse[full] = true
			x.add(full, 0o644)
		case mode == "100755":
			x.add(full, 0o755)
		case mode == "120000":
			x.links[full] = true
			x.add(full, 0o644)
		default:
			x.add(full, 0o644)
		}
	}
	return nil
}

// also adds files that are on the disk, as something that differs from every commit.
func (x *index) also(dir, name string) error {
	err := fs.WalkDir(os.DirFS(dir), path.Clean(name), func(p string, e fs.DirEntry, err error) error {
		if _, tracked := x.files[p]; err == nil && !e.IsDir() && !tracked {
			x.add(p, 0o644)
			x.changed[p] = true
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the caller reports it
	}
	return err
}

func (x *index) add(name string, mode fs.FileMode) {
	x.files[name] = mode
	for d := path.Dir(name); !x.folders[d]; d = path.Dir(d) {
		x.folders[d] = true
	}
}

// below lists the names of a set that are a path or lie below it, sorted.
func (x *index) below(at string, set map[string]bool) (out []string) {
	for name := range set { // order-free: sorted below
		if at == "" || at == "." || name == at || strings.HasPrefix(name, at+"/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// info gives a file the permissions that git keeps: whether it may be executed. The rest
// is the umask of whoever checked it out.
func (x *index) info(at string, info fs.FileInfo) fs.FileInfo {
	if !x.tracks() {
		return info
	}
	mode := info.Mode()
	switch {
	case mode.IsDir():
		return kept{info, mode.Type() | 0o755}
	case !mode.IsRegular():
		return info
	}
	perm := x.files[at]
	if x.diskModes {
		perm = 0o644 | mode&0o100 | mode&0o100>>3 | mode&0o100>>6
	}
	return kept{info, perm}
}

type kept struct {
	fs.FileInfo
	mode fs.FileMode
}

func (k kept) Mode() fs.FileMode { return k.mode }

// GitError is the failure to learn from git which files it tracks.
type GitError struct{ words string }

func (e *GitError) Error() string { return e.words }

// git runs it for what it prints. Nothing of the repository is changed, and no program that
// its configuration names is run.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"--literal-pathspecs", "-c", "core.fsmonitor=false", "-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", &GitError{"the folder is in a repository, and git, which says what belongs to it, is not installed: install it, or build with --untracked ."}
	case err != nil:
		words, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return "", &GitError{fmt.Sprintf("git %s: %v: %s; mend that, or build with --untracked .", args[0], err, words)}
	}
	return string(out), nil
}

// ErrShallow reports that a checkout does not have its whole history.
var ErrShallow = errors.New("the checkout is shallow: git fetch --unshallow, or fetch-depth: 0 in CI, brings the rest")

// CheckoutContains reports whether the history of a checkout has a commit.
func CheckoutContains(dir, commit string) (bool, error) {
	if raw, err := hex.DecodeString(commit); err != nil || len(raw) < 20 {
		return false, fmt.Errorf("%q is no commit", commit)
	}
	if _, err := git(dir, "merge-base", "--is-ancestor", commit, "HEAD"); err == nil {
		return true, nil
	}
	shallow, err := git(dir, "rev-parse", "--is-shallow-repository")
	if err == nil && strings.TrimSpace(shallow) == "true" {
		err = ErrShallow
	}
	return false, err
}

// TrackedBelow lists what git tracks below a folder, which need not be on the disk any more.
func TrackedBelow(dir, name string) ([]string, error) {
	if !inRepository(dir) {
		return nil, nil
	}
	out, err := git(dir, "ls-files", "-z", "--", name)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(out, "\x00"), func(n string) bool { return n == "" }), nil
}
