package netconf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Capabilities that the driver uses (RFC 6241 section 8, RFC 6243, RFC 5277).
const (
	capBase11       = "urn:ietf:params:netconf:base:1.1"
	capCandidate    = "urn:ietf:params:netconf:capability:candidate:1.0"
	capConfirmed10  = "urn:ietf:params:netconf:capability:confirmed-commit:1.0"
	capConfirmed11  = "urn:ietf:params:netconf:capability:confirmed-commit:1.1"
	capValidate10   = "urn:ietf:params:netconf:capability:validate:1.0"
	capValidate11   = "urn:ietf:params:netconf:capability:validate:1.1"
	capRollback     = "urn:ietf:params:netconf:capability:rollback-on-error:1.0"
	capWritable     = "urn:ietf:params:netconf:capability:writable-running:1.0"
	capStartup      = "urn:ietf:params:netconf:capability:startup:1.0"
	capDefaults     = "urn:ietf:params:netconf:capability:with-defaults:1.0"
	capNotification = "urn:ietf:params:netconf:capability:notification:1.0"
)

const dialTimeout = 15 * time.Second

// login is how to reach a device.
type login struct {
	address string
	config  *ssh.ClientConfig
	only10  bool          // speak NETCONF 1.0 alone
	timeout time.Duration // to open a session
}

// session is one with a device. One request is made at a time.
type session struct {
	client   *ssh.Client
	f        *frames
	caps     map[string]url.Values // by the name before the question mark
	messages chan []byte
	closing  context.Context // until close
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error // why it ended, once it did
	last     int
}

// dial opens a session on which the device answers. netconfd 2.13 loses the first request
// when it comes together with the client's hello, and never answers then: the session is
// opened again, with more patience each time.
func (l *login) dial(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	for patience := l.timeout / 16; ; patience *= 2 {
		s, err := l.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("open a session with the device: %w", err)
		}
		first, stop := context.WithTimeout(ctx, patience)
		_, err = s.rpc(first, `<get-config><source><running/></source><filter type="subtree"/></get-config>`)
		silent := first.Err() != nil
		stop()
		if r := (*refusal)(nil); err == nil || errors.As(err, &r) {
			return s, nil
		}
		s.close()
		if !silent || ctx.Err() != nil {
			return nil, fmt.Errorf("the device does not answer the first request: %w", err)
		}
	}
}

func (l *login) connect(ctx context.Context) (*session, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends whatever is waited for
	s, err := l.open(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (l *login) open(conn net.Conn) (*session, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, l.address, l.config)
	if err != nil {
		return nil, err
	}
	s := &session{client: ssh.NewClient(c, channels, requests), messages: make(chan []byte), ended: make(chan struct{})}
	s.closing, s.cancel = context.WithCancel(context.Background())
	channel, err := s.client.NewSession()
	if err != nil {
		return nil, err
	}
	out, err := channel.StdinPipe()
	if err != nil {
		return nil, err
	}
	in, err := channel.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := channel.RequestSubsystem("netconf"); err != nil {
		return nil, fmt.Errorf("the device has no subsystem netconf: %w", err)
	}
	s.f = &frames{in: bufio.NewReader(in), out: out}
	if err := s.hello(l.only10); err != nil {
		return nil, err
	}
	go s.receive()
	return s, nil
}

func (s *session) hello(only10 bool) error {
	ours := "<capability>urn:ietf:params:netconf:base:1.0</capability>"
	if !only10 {
		ours += "<capability>" + capBase11 + "</capability>"
	}
	if err := s.f.write([]byte(`<?xml version="1.0" encoding="UTF-8"?><hello xmlns="` + nsBase + `"><capabilities>` + ours + `</capabilities></hello>`)); err != nil {
		return err
	}
	raw, err := s.f.read()
	if err != nil {
		return err
	}
	e, err := parse(raw)
	if err != nil {
		return err
	}
	if e.Local != "hello" {
		return fmt.Errorf("the device begins with %s, not with hello", e.Local)
	}
	s.caps = map[string]url.Values{}
	if list := e.child("capabilities"); list != nil {
		for _, c := range list.children {
			name, query, _ := strings.Cut(strings.TrimSpace(c.text), "?")
			values, err := url.ParseQuery(query)
			if err != nil {
				values = url.Values{}
			}
			s.caps[name] = values
		}
	}
	s.f.chunked = s.has(capBase11) && !only10
	return nil
}

func (s *session) has(capability string) bool { _, is := s.caps[capability]; return is }

// receive hands messages over until the session ends.
func (s *session) receive() {
	defer close(s.ended)
	defer s.close()
	for {
		raw, err := s.f.read()
		if err != nil {
			s.err = err
			return
		}
		select {
		case s.messages <- raw:
		case <-s.closing.Done():
			s.err = errors.New("it was closed")
			return
		}
	}
}

func (s *session) close() {
	s.cancel()
	_ = s.client.Close() // it may have ended
}

func (s *session) alive() bool {
	select {
	case <-s.ended:
		return false
	case <-s.closing.Done():
		return false
	default:
		return true
	}
}

// message waits for the next one.
func (s *session) message(ctx context.Context) (*element, error) {
	select {
	case raw := <-s.messages:
		return parse(raw)
	case <-s.ended:
		return nil, fmt.Errorf("the session with the device ended: %w", s.err)
	case <-ctx.Done():
		s.close() // its answer may come to the next request
		return nil, ctx.Err()
	}
}

// rpc makes a request. An answer with errors is a *refusal.
func (s *session) rpc(ctx context.Context, operation string) (*element, error) {
	s.last++
	id := strconv.Itoa(s.last)
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	if err := s.f.write([]byte(`<?xml version="1.0" encoding="UTF-8"?><rpc xmlns="` + nsBase + `" message-id="` + id + `">` + operation + `</rpc>`)); err != nil {
		s.close()
		return nil, fmt.Errorf("send to the device: %w", err)
	}
	for {
		e, err := s.message(ctx)
		if err != nil {
			s.close()
			return nil, err
		}
		if e.Local != "rpc-reply" {
			continue // a notification
		}
		for _, a := range e.attrs {
			if a.Name.Local == "message-id" && a.Value != id {
				s.close()
				return nil, fmt.Errorf("the device answers request %s, not %s", a.Value, id)
			}
		}
		return e, refusalOf(e)
	}
}

// refusal is the errors of an answer (RFC 6241 section 4.3).
type refusal struct{ errors []rpcError }

type rpcError struct{ tag, app, path, bad, message, session string }

func (r *refusal) Error() string {
	var out []string
	for _, e := range r.errors {
		text := e.tag
		if e.app != "" {
			text += " (" + e.app + ")"
		}
		if e.message != "" {
			text += ": " + e.message
		}
		if e.path != "" {
			text += " at " + e.path
		}
		if e.session != "" && e.session != "0" {
			text += ", session " + e.session
		}
		out = append(out, text)
	}
	return "the device answers " + strings.Join(out, "; ")
}

func (r *refusal) has(tag string) bool {
	for _, e := range r.errors {
		if e.tag == tag {
			return true
		}
	}
	return false
}

func refusalOf(reply *element) error {
	var r refusal
	for _, c := range reply.children {
		if c.Local != "rpc-error" || c.line("error-severity") == "warning" {
			continue
		}
		r.errors = append(r.errors, rpcError{tag: c.line("error-tag"), app: c.line("error-app-tag"), path: c.line("error-path"),
			message: c.line("error-message"), bad: c.child("error-info").line("bad-element"), session: c.child("error-info").line("session-id")})
	}
	if len(r.errors) == 0 {
		return nil
	}
	return &r
}
