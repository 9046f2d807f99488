// Package exit holds the exit codes of the commands and chooses one for an
// error. The codes are part of the command line's contract.
package exit

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// The codes.
const (
	Done        = 0
	Failed      = 1
	BadInput    = 2
	Refused     = 3
	Unreachable = 4
	NotFound    = 5
	Degraded    = 6
	// Contradicted is of doctor and audit verify: all else holds, and what a host
	// reported contradicts itself or the log.
	Contradicted = 7
	// Waiting is of session create: the session is there, and waits for a host.
	Waiting     = 8
	Interrupted = 130
)

// Help explains the codes.
const Help = `Every command ends with one of these codes:

  0    done
  1    failed: the error says what and what to do next; for rollout watch, the
       rollout ended other than converged
  2    bad input: arguments, flags, or files, with file:line:column where known
  3    refused: a signature, a token, or a permission is not good enough
  4    not reachable: no server answered in time
  5    not found: no such host, rollout or bundle
  6    not well: of status --check alone, something of the fleet needs a person
  7    contradicted: of doctor and audit verify alone, all else holds, and what a
       host reported contradicts itself or the log
  8    waiting: of session create alone, the session is asked for, and a pod of it
       has no host yet
  130  interrupted by Ctrl-C

Messages of errors go to stderr and begin with "steady: "; with -o json they are
one object: {"error": {"code": "not-found", "exit": 5, "message": "..."}}. Findings in a file go
to stderr as file:line:column: message, one per line.`

// Failure is an error with an exit code. Without an error of its own, all that
// there is to say was said already.
type Failure struct {
	Code int
	Err  error
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("failed with code %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// With gives an error a code.
func With(code int, err error) error { return &Failure{Code: code, Err: err} }

// Silently ends with a code when everything was said.
func Silently(code int) error { return &Failure{Code: code} }

// Bad makes an error one of bad input; nil stays nil.
func Bad(err error) error {
	if err == nil {
		return nil
	}
	return With(BadInput, err)
}

// Badf is Bad with words.
func Badf(format string, args ...any) error { return Bad(fmt.Errorf(format, args...)) }

// CheckArgs has a command and all below it accept the arguments that their Use names, but
// for those that have a rule of their own.
func CheckArgs(cmd *cobra.Command) {
	if cmd.Args == nil {
		least, most := arity(cmd.Use)
		cmd.Args = func(cmd *cobra.Command, args []string) error { return Accepts(cmd, args, least, most) }
	}
	for _, sub := range cmd.Commands() {
		CheckArgs(sub)
	}
}

// arity reads a Use: WORD is an argument, [WORD] one that may be left out, WORD... one or
// more, and -f WORD a flag with its value.
func arity(use string) (least, most int) {
	optional, value := false, false
	for _, word := range strings.Fields(use)[1:] {
		optional = optional || strings.HasPrefix(word, "[")
		bare := strings.Trim(word, "[]")
		switch {
		case strings.HasPrefix(bare, "-"):
			value = bare != "--" && bare == word
		case value:
			value = false
		default:
			if most++; strings.HasSuffix(bare, "...") {
				most = math.MaxInt
			}
			if !optional {
				least++
			}
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return least, most
}

// Accepts refuses fewer or more arguments than a command accepts, and says what those are.
func Accepts(cmd *cobra.Command, args []string, least, most int) error {
	path, given := cmd.CommandPath(), len(args)
	_, named, _ := strings.Cut(cmd.Use, " ")
	var message string
	switch {
	case given >= least && given <= most:
		return nil
	case cmd.HasSubCommands() && given > 0:
		return unknown(cmd, args[0])
	case named == "":
		message = fmt.Sprintf("%s takes no arguments, and %q is one", path, args[0])
	case given == 0:
		message = fmt.Sprintf("%s needs %s", path, named)
	default:
		message = fmt.Sprintf("%s takes %s, and %d arguments are given: %s", path, named, given, strings.Join(args, " "))
	}
	return Badf("%s\nusage: %s; see %s --help", message, cmd.UseLine(), path)
}

// Flags makes an unreadable flag bad input.
func Flags(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknown(cmd, words[0]) // its flags are not the ones of cmd
	}
	if n, ok := errors.AsType[*strconv.NumError](err); ok {
		what, _, _ := strings.Cut(err.Error(), ": "+n.Error())
		expected := "expected a number"
		if errors.Is(n.Err, strconv.ErrRange) {
			expected = "the number is too large or too small"
		}
		err = fmt.Errorf("%s: %s", what, expected)
	}
	return Badf("%w; %s --help shows the flags", err, cmd.CommandPath())
}

// unknown says that a word is no command, and where one of that name or a like one is.
func unknown(cmd *cobra.Command, word string) error {
	var names, near []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	for _, name := range prose.Nearest(word, names) {
		near = append(near, cmd.CommandPath()+" "+name)
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if path := sub.CommandPath(); sub.Name() == word && !slices.Contains(near, path) {
				near = append(near, path)
			}
			walk(sub)
		}
	}
	walk(cmd)
	if len(near) > 0 {
		return Badf("unknown command %q for %q; did you mean %s? %s --help lists the commands", word, cmd.CommandPath(), prose.Either(near), cmd.CommandPath())
	}
	return Badf("unknown command %q for %q; %s --help lists the commands", word, cmd.CommandPath(), cmd.CommandPath())
}

var names = map[int]string{
	Done: "done", Failed: "failed", BadInput: "bad-input", Refused: "refused",
	Unreachable: "unreachable", NotFound: "not-found", Degraded: "degraded", Contradicted: "contradicted", Waiting: "waiting", Interrupted: "interrupted",
}

// Name is a code as a word, such as not-found.
func Name(code int) string { return names[code] }

// Report writes what is still to be said of an error and returns the code of the
// process: as a line for people, or as an object {"error": …} on one line for
// programs. ctx is the one that a signal ends.
func Report(ctx context.Context, w io.Writer, name string, asJSON bool, err error) int {
	if err == nil {
		return Done
	}
	code := codeOf(ctx, err)
	if f, ok := errors.AsType[*Failure](err); ok && f.Err == nil {
		return code
	}
	message := cmp.Or(listenMessage(err), prose.Lines(err.Error()))
	if code == Interrupted {
		message = "interrupted"
	}
	if !asJSON {
		fmt.Fprintf(w, "%s: %s\n", name, message)
		return code
	}
	var line struct {
		Error struct {
			Code    string `json:"code"`
			Exit    int    `json:"exit"`
			Message string `json:"message"`
		} `json:"error"`
	}
	line.Error.Code, line.Error.Exit, line.Error.Message = Name(code), code, message
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(line); err != nil {
		return Failed
	}
	return code
}

func codeOf(ctx context.Context, err error) int {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return Interrupted
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f.Code
	}
	if _, ok := errors.AsType[*trust.Error](err); ok {
		return Refused
	}
	if _, ok := errors.AsType[*identity.TokenError](err); ok {
		return Refused
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Refused
	}
	if op, ok := listenError(err); ok {
		return listenCode(op)
	}
	if errors.Is(err, fs.ErrPermission) {
		return Refused
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return Failed // nobody was called
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return Unreachable
	}
	if u, ok := errors.AsType[*url.Error](err); ok && u.Timeout() {
		return Unreachable
	}
	return Failed
}

// listenError finds that an address could not be listened on.
func listenError(err error) (*net.OpError, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	return op, ok && op.Op == "listen"
}

// listenCode is the code of such an error: no server failed to answer.
func listenCode(op *net.OpError) int {
	switch {
	case errors.Is(op, syscall.EACCES):
		return Refused
	case errors.Is(op, syscall.EADDRNOTAVAIL):
		return BadInput
	}
	return Failed
}

// listenMessage says why an address cannot be listened on and what to do; empty
// for another error.
func listenMessage(err error) string {
	op, ok := listenError(err)
	if !ok || op.Addr == nil {
		return ""
	}
	at := op.Addr.String()
	switch {
	case errors.Is(op, syscall.EADDRINUSE):
		return "cannot listen on " + at + ": another process uses the address; stop that one (ss -ltnp shows it), or choose another address or port"
	case errors.Is(op, syscall.EADDRNOTAVAIL):
		return "cannot listen on " + at + ": this machine has no such address; give one of its own (ip address shows them), or only a port, such as :8443"
	case errors.Is(op, syscall.EACCES):
		return "cannot listen on " + at + ": this user may not; choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE (AmbientCapabilities= of a unit)"
	}
	return ""
}
