// Package fetch gets signed releases from where people keep them: a folder, a URL
// of a packed release, a branch of a git repository. It bounds what it takes and
// runs nothing of it. It verifies no signature: whoever asked does, the same way
// for every source.
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/release"
)

// Source is one place where releases are kept. Its methods are for one goroutine
// at a time.
type Source interface {
	// Name is what people know the place by; no secret is in it.
	Name() string
	// Fetch writes the release that is there into the empty folder into, unless it
	// is the one that last, an earlier validator or empty, stands for. Then changed
	// is false and nothing was written. Errors are of type *Error.
	Fetch(ctx context.Context, into, last string) (validator string, changed bool, err error)
}

// Causes of errors.
const (
	Unreachable = "unreachable" // nobody answered, or the answer broke off
	Refused     = "refused"     // somebody answered that it is not to be had
	Redirected  = "redirected"  // to another origin
	Slow        = "slow"        // it came too slowly, or took too long
	Unsettled   = "unsettled"   // it changed while it was read
	Unusable    = "unusable"    // this machine cannot fetch it: no git, no room
	Content     = "content"     // what is there cannot be a release
)

// Error says why nothing was fetched. Of one cause the words may differ from one
// attempt to the next.
type Error struct {
	cause string
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error behind it.
func (e *Error) Unwrap() error { return e.Err }

// Cause is one of the causes above.
func (e *Error) Cause() string { return e.cause }

func failf(cause, format string, args ...any) error {
	return &Error{cause, fmt.Errorf(format, args...)}
}

// Options are what sources have in common.
type Options struct {
	// Credentials are sent to https sources; the zero value sends none.
	Credentials Credentials
	// CA is the PEM of the only authorities that are believed; empty takes the
	// machine's.
	CA []byte
	// Cache is a folder of its own for a git repository, made if need be. What is
	// in it may be removed at any time.
	Cache string
	// Caps bound a release; the zero value takes release.DefaultCaps.
	Caps release.Caps
	// Timeout bounds one fetch, an hour by default, and Stall how long less than
	// minRate may arrive, 30 s by default.
	Timeout, Stall time.Duration
}

func (o Options) withDefaults() Options {
	o.Caps = cmp.Or(o.Caps, release.DefaultCaps())
	o.Timeout = cmp.Or(o.Timeout, time.Hour)
	o.Stall = cmp.Or(o.Stall, 30*time.Second)
	return o
}

// maxSpec bounds the text that names a source.
const maxSpec = 2000

// Forms says in words what Open takes.
const Forms = "dir:/FOLDER, https://HOST/PATH, or git+https://HOST/PATH#BRANCH:FOLDER (also git+ssh and git+file)"

// Open returns the source that a text names. It reaches nothing yet.
func Open(spec string, o Options) (Source, error) {
	o = o.withDefaults()
	if len(spec) > maxSpec || strings.ContainsFunc(spec, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("a source has at most %d characters, and no control characters", maxSpec)
	}
	if dir, ok := strings.CutPrefix(spec, "dir:"); ok {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("source %q: expected dir:/an/absolute/path", spec)
		}
		return &folder{dir: filepath.Clean(dir), o: o}, nil
	}
	u, err := url.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("a source is %s", Forms) // not the error: it may repeat a secret
	}
	if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "git+ssh" {
		return nil, fmt.Errorf("source %s: a name or password in a URL is seen by everybody on the machine; expected a credentials file", redacted(u))
	}
	if u.Scheme == "git+file" && u.Host == "" && filepath.IsAbs(u.Path) || u.Host != "" && !strings.HasPrefix(u.Host, "-") {
		switch u.Scheme {
		case "http", "https":
			return openHTTP(u, o)
		case "git+http", "git+https", "git+ssh", "git+file":
			return openGit(u, o)
		}
	}
	return nil, fmt.Errorf("source %s: expected %s", redacted(u), Forms)
}

// MaySendCredentials reports whether credentials may be sent to the source that a
// text names.
func MaySendCredentials(spec string) bool {
	return strings.HasPrefix(spec, "https:") || strings.HasPrefix(spec, "git+https:")
}

// redacted shows a URL without what may be secret in it.
func redacted(u *url.URL) string {
	shown := *u
	if shown.User != nil {
		shown.User = url.User(u.User.Username())
	}
	if shown.RawQuery != "" {
		shown.RawQuery = "..."
	}
	return shown.String()
}

// Credentials are what a server asks for before it gives a release out.
type Credentials struct{ user, secret string }

var credentialPattern = regexp.MustCompile(`^[!-9;-~]*(:[!-~]+)?$`)

// ReadCredentials reads a file that holds USER:PASSWORD, as git servers want, or
// a bearer token alone. Only its owner may be able to read it.
func ReadCredentials(path string) (Credentials, error) {
	raw, err := ReadSecret(path)
	if err != nil {
		return Credentials{}, err
	}
	text := string(raw)
	if !credentialPattern.MatchString(text) {
		return Credentials{}, fmt.Errorf("%s: expected one line, USER:PASSWORD or a token", path)
	}
	user, secret, pair := strings.Cut(text, ":")
	if !pair {
		user, secret = "", text
	}
	return Credentials{user, secret}, nil
}

// maxSecret bounds a file with a secret.
const maxSecret = 4096

// ReadSecret reads a file with one secret in it, without the white space around
// it. It refuses an empty one, and one that others may read.
func ReadSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s holds a secret and others may use it; run chmod 600 on it", path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(raw)
	if len(raw) > maxSecret || len(secret) == 0 {
		return nil, fmt.Errorf("%s: expected 1 to %d bytes", path, maxSecret)
	}
	return secret, nil
}

// unpacked says why what was fetched could not be unpacked, or is nil.
func unpacked(err error) error {
	own, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return own
	case errors.Is(err, release.ErrPack):
		return failf(Content, "%w", err)
	}
	return failf(Unusable, "%w", err)
}

// ended says why a fetch whose context ended did, or is nil.
func ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return nil
	case errors.As(cause, new(*Error)):
		return cause
	case errors.Is(cause, context.DeadlineExceeded):
		return failf(Slow, "it took too long: %w", err)
	default:
		return failf(Unreachable, "%w", cause)
	}
}
