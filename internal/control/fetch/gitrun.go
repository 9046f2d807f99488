package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// passed are the variables that git gets of the server's own environment.
var passed = []string{"PATH", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy", "TMPDIR"}

func (r *repository) environment() []string {
	env := []string{
		"HOME=" + filepath.Join(r.o.Cache, "home"), "LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + filepath.Join(r.o.Cache, "config"), "GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL=" + r.url.Scheme, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_LFS_SKIP_SMUDGE=1", "GIT_NO_LAZY_FETCH=1",
	}
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if c := r.o.Credentials; c.secret != "" {
		// In the environment, not on the command line, which everybody may read;
		// and for this remote alone.
		header := "Authorization: Bearer " + c.secret
		if c.user != "" {
			header = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(c.user+":"+c.secret))
		}
		env = append(env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http."+r.url.Scheme+"://"+r.url.Host+"/.extraHeader", "GIT_CONFIG_VALUE_0="+header)
	}
	return env
}

// run runs git with a bound on every file that it writes, and kills it with all
// its children when ctx ends.
func (r *repository) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	blocks := strconv.FormatInt(r.o.Caps.Bytes/512+2048, 10)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `ulimit -f "$0" && exec "$@"`, blocks, r.git}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stdin = r.environment(), r.o.Cache, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.WaitDelay = 5 * time.Second
	said := &bounded{left: 2 << 10, drop: true}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ended(ctx, err) != nil:
		return ended(ctx, fmt.Errorf("git %s: %w", verb(args), err))
	}
	words := strings.TrimSpace(said.words())
	if words == "" {
		words = err.Error()
	}
	if strings.Contains(words, "invalid index-pack output") {
		words += fmt.Sprintf("; it is damaged, or over the %d bytes that are allowed", r.o.Caps.Bytes)
	}
	return failf(causeOf(words, err), "git %s: %s", verb(args), words)
}

// verb is what git was told to do.
func verb(args []string) string {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			return a
		}
	}
	return ""
}

// causeOf reads what git says; the words are those of the C locale.
func causeOf(words string, err error) string {
	if x, ok := errors.AsType[*exec.ExitError](err); !ok {
		return Unusable // it did not even start
	} else if s, ok := x.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return Content // the pack went over the bound of a file
	}
	for _, k := range []struct{ words, cause string }{
		{"redirect", Redirected}, {"returned error: 3", Redirected},
		{"No space left", Unusable}, {"Disk quota", Unusable},
		{"early EOF", Unreachable}, {"disconnect", Unreachable}, {"hung up", Unreachable},
		{"File too large", Content}, {"fsck error", Content}, {"error in object", Content}, {"index-pack", Content}, {"bad object", Content},
		{"not a tree object", Content}, {"unable to read", Content},
		{"Authentication failed", Refused}, {"could not read Username", Refused}, {"Permission denied", Refused}, {"not found", Refused},
		{"does not exist", Refused}, {"does not appear to be a git repository", Refused}, {"couldn't find remote ref", Refused}, {"returned error: 4", Refused},
		{"too slow", Slow}, {"timed out", Slow},
	} {
		if strings.Contains(words, k.words) {
			return k.cause
		}
	}
	return Unreachable
}

// bounded keeps what is written up to a bound; more is an error, or dropped.
type bounded struct {
	kept []byte
	left int
	drop bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.kept, b.left = append(b.kept, p[:n]...), b.left-n
	if n < len(p) && !b.drop {
		return n, failf(Content, "git answered more than is allowed")
	}
	return len(p), nil
}

// words are what was written, as one line fit for people.
func (b *bounded) words() string {
	return strings.Join(strings.FieldsFunc(string(b.kept), func(c rune) bool { return c == '\n' || c == '\r' || !unicode.IsPrint(c) }), "; ")
}

// proxyOf reports whether a URL is reached through a proxy.
func proxyOf(u *url.URL) (bool, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
	return proxy != nil, err
}
