package api_test

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// backup copies the folder of a server that is stopped for it.
func (w *world) backup() (dir string) {
	w.t.Helper()
	w.halt()
	dir = filepath.Join(w.t.TempDir(), "backup")
	testkit.Must(w.t, exec.Command("cp", "-a", w.opts.DataDir, dir).Run())
	w.start()
	return dir
}

// restore puts a copy of a backup back.
func (w *world) restore(backup string) {
	w.t.Helper()
	w.halt()
	testkit.Must(w.t, os.RemoveAll(w.opts.DataDir))
	testkit.Must(w.t, exec.Command("cp", "-a", backup, w.opts.DataDir).Run())
	w.restored = true
	w.start()
}

// renew has the host go over to a certificate for a new key.
func (a *agent) renew() {
	a.w.t.Helper()
	a.key = testkit.Value(identity.NewKey())(a.w.t)
	var c wire.Certificate
	if status := a.do("POST", wire.RouteRenew, wire.Renew{CSR: testkit.Value(identity.NewCSR(a.key))(a.w.t)}, &c); status != 200 {
		a.w.t.Fatalf("renewal: %d", status)
	}
	a.adopt(c)
}

// presents connects with a certificate of another time, and returns how a heartbeat is answered.
func (a *agent) presents(key crypto.Signer, cert *tls.Certificate) (status int, detail string) {
	a.w.t.Helper()
	a.key, a.cert = key, cert
	a.connect()
	status, raw, err := a.call(a.w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: a.incarnation})
	if err != nil {
		return http.StatusForbidden, err.Error() // at the handshake
	}
	return status, string(raw)
}

// TestT10CertificatesOfAfterTheBackup: after a restore, certificates that were issued since the
// backup are in use again, the newest that was presented ends those before it, and what the log knows as
// replaced, what it knows as revoked, and hosts that it does not know stay out.
func TestT10CertificatesOfAfterTheBackup(t *testing.T) {
	t.Parallel()
	var ahead time.Duration // renewals are days apart
	var log bytes.Buffer    // read while the server is stopped
	w := newWorld(t, func(o *api.Options) {
		o.Control.Now = func() time.Time { return time.Now().Add(ahead) }
		o.Control.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	later := func(a *agent) { w.halt(); ahead += 5 * time.Second; w.start(); a.connect() }
	a := enrolled(w, hostName(0))
	firstKey, first := a.key, a.cert
	later(a)
	a.renew()
	knownKey, known := a.key, a.cert
	later(a)
	backup := w.backup()
	a.connect()
	a.renew()
	lostKey, lost := a.key, a.cert
	later(a)
	a.renew()
	newestKey, newest := a.key, a.cert
	b := enrolled(w, hostName(1))
	w.restore(backup)

	if status, text := a.presents(firstKey, first); status != 200 {
		t.Errorf("the certificate that the log has as the one before: %d %s", status, text)
	}
	if status, text := a.presents(lostKey, lost); status != 200 {
		t.Errorf("a certificate of after the backup: %d %s", status, text)
	}
	if status, text := a.presents(firstKey, first); status != 403 || !strings.Contains(text, "is not in use") {
		t.Errorf("one that the log knows as replaced: %d %s", status, text)
	}
	if status, text := a.presents(newestKey, newest); status != 200 {
		t.Errorf("the newest: %d %s", status, text)
	}
	if status, _ := a.presents(knownKey, known); status != 403 {
		t.Errorf("one from before the two: %d", status)
	}
	for range 3 {
		if status, text := b.presents(b.key, b.cert); status != 403 || !strings.Contains(text, "steady token create "+b.name) {
			t.Errorf("a host that enrolled after the backup: %d %s", status, text)
		}
	}
	if n := count(w.types(a.name), "host.certificate_renewed"); n != 3 {
		t.Errorf("%d renewals in the log", n)
	}
	var ends clock.Instant
	testkit.Must(t, w.server.Control().View(w.ctx(), func(s *coreplan.State) { ends = s.Hosts[a.name].NotAfter }))
	leaf := testkit.Value(x509.ParseCertificate(newest.Certificate[0]))(t)
	if ends != clock.FromTime(leaf.NotAfter) {
		t.Errorf("the certificate ends %s, the log has %s", leaf.NotAfter, ends)
	}
	w.halt()
	refused := regexp.MustCompile(`msg="a host was refused" host=`+b.name+` .*the host enrolled later`).FindAllString(log.String(), -1)
	if len(refused) == 0 || len(refused) > 2 { // once in an hour, and one may begin meanwhile
		t.Errorf("the server's log says %d times that it refused a host that it does not know:\n%s", len(refused), log.String())
	}
	w.start() // folded again
	if status, text := a.presents(newestKey, newest); status != 200 {
		t.Errorf("the newest, after another start: %d %s", status, text)
	}
	a.renew()

	w.restore(backup)
	testkit.Must(t, w.op.RevokeHost(w.ctx(), a.name, "stolen"))
	if status, text := a.presents(newestKey, newest); status != 403 {
		t.Errorf("one that was revoked after the restore: %d %s", status, text)
	}
	w.halt()
	if !regexp.MustCompile(`msg="a host was refused" host=` + a.name + ` .*revoked`).MatchString(log.String()) {
		t.Errorf("the server's log does not say that it refused a revoked host:\n%s", log.String())
	}
}

// TestAdminEndsSafeMode: status, the list of hosts and the safe mode itself name who owes events and until
// when; an admin ends that, and nobody else, and the log names who was not waited for.
func TestAdminEndsSafeMode(t *testing.T) {
	w := newWorld(t)
	a, b := enrolled(w, hostName(0)), enrolled(w, hostName(1))
	secret := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "ann", Role: operator.Operator}))(t)
	w.halt()
	w.start()
	ann := w.client(secret.Secret)
	if _, err := w.op.EndSafeMode(w.ctx(), "drill"); err == nil || !strings.Contains(err.Error(), "nothing to end") {
		t.Errorf("where nothing is waited for: %v", err)
	}
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 4}, nil)
	w.release("r1", plan{hosts: 2, content: "one"})
	if d, err := b.poll("0"); err != nil || d != nil {
		t.Fatalf("granted in safe mode: %+v, %v", d, err)
	}
	is := testkit.Value(w.op.SafeMode(w.ctx()))(t)
	want := server.Owed{Host: a.name, Acknowledged: 4}
	if len(is.Owed) != 1 || is.Owed[0] != want || is.Until <= w.server.Control().Now() || !slices.Contains(is.Unheard, a.name) {
		t.Errorf("the safe mode is %+v", is)
	}
	if s := testkit.Value(w.op.Status(w.ctx()))(t); !strings.Contains(s.SafeMode, a.name) || !strings.Contains(s.SafeMode, prose.Date(is.Until)) {
		t.Errorf("the status says %q", s.SafeMode)
	}
	if list := testkit.Value(w.op.Hosts(w.ctx()))(t); list[0].Owed == nil || *list[0].Owed != want || list[1].Owed != nil {
		t.Errorf("the hosts are %+v", list)
	}
	if _, err := ann.EndSafeMode(w.ctx(), "drill"); err == nil || !strings.Contains(err.Error(), "does not allow") {
		t.Errorf("an operator who is no admin: %v", err)
	}
	if was, err := w.op.EndSafeMode(w.ctx(), "scrap"); err != nil || len(was.Owed) != 1 {
		t.Fatalf("ended: %+v, %v", was, err)
	}
	b.offered()
	if is := testkit.Value(w.op.SafeMode(w.ctx()))(t); len(is.Owed) > 0 {
		t.Errorf("the safe mode is %+v", is)
	}
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t)
	told := ""
	for _, e := range page.Events {
		if e.Type == (event.SafeModeEnded{}).EventType() {
			told += string(e.Body)
		}
	}
	if !strings.Contains(told, `"reason":"scrap","hosts":["h-0000"]`) {
		t.Errorf("the log has %s", told)
	}
}
