package identity

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

type enrolment struct {
	signers map[trust.Role]trust.Signer
	root    []byte
	token   Token
}

func newEnrolment(t testing.TB) enrolment {
	t.Helper()
	e := enrolment{signers: map[trust.Role]trust.Signer{}}
	spec := map[trust.Role]trust.RoleSpec{}
	for _, role := range trust.Roles() {
		s := testkit.Value(trust.NewSigner(newKey(t)))(t)
		e.signers[role] = s
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	at := clock.FromTime(now)
	r := testkit.Value(trust.NewRoot(fleet.Document{Fleet: testFleet, Epoch: 1, Version: 1, IssuedAt: at}, at.Add(365*clock.Day), spec))(t)
	e.root = testkit.Value(trust.SignRoot(r, e.signers[trust.RoleRoot]))(t)
	parsed := testkit.Value(trust.ParseEnvelope(e.root))(t)
	e.token = Token{
		Document: fleet.Document{Fleet: testFleet, Epoch: 1, IssuedAt: at},
		ID:       "00112233445566778899aabbccddeeff", Host: "web-1", Expires: at.Add(TokenLife),
		RootDigest: digest.Of(parsed.Payload), MinVersions: map[string]uint64{fleet.TypeResolved: 7},
	}
	return e
}

func (e enrolment) sign(t testing.TB) []byte {
	t.Helper()
	env := testkit.Value(SignToken(e.token, e.signers[trust.RoleEnrol]))(t)
	return env
}

func (e enrolment) verifier(t testing.TB) trust.Verifier {
	t.Helper()
	s := testkit.Value(trust.Begin(testFleet, e.root, e.token.RootDigest))(t)
	v := testkit.Value(trust.NewVerifier(testFleet, s))(t)
	return v
}

func codeOf(err error) TokenErrorCode {
	var e *TokenError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestTokenMisuse(t *testing.T) {
	e := newEnrolment(t)
	v, env, at := e.verifier(t), e.sign(t), clock.FromTime(now)
	got := testkit.Value(VerifyToken(v, env, at))(t)
	if got.Host != "web-1" || got.ID != e.token.ID {
		t.Errorf("%+v", got)
	}
	if _, err := VerifyToken(v, env, at.Add(TokenLife)); codeOf(err) != TokenExpired {
		t.Errorf("at its expiry: %v", err)
	}
	if _, err := VerifyToken(v, env, at.Add(-trust.Slack-1)); codeOf(err) != TokenExpired {
		t.Errorf("before it was issued: %v", err)
	}
	for bit := range len(env) * 8 {
		b := bytes.Clone(env)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := VerifyToken(v, b, at); err == nil {
			t.Fatalf("bit %d flipped and accepted", bit)
		}
	}
	// A server has no enrol key: no other role, and no other fleet's, will do.
	for _, role := range trust.Roles() {
		by := testkit.Value(SignToken(e.token, e.signers[role]))(t)
		if _, err := VerifyToken(v, by, at); (err == nil) != (role == trust.RoleEnrol) {
			t.Errorf("signed by %s: %v", role, err)
		}
	}
	if _, err := VerifyToken(newEnrolment(t).verifier(t), env, at); codeOf(err) != TokenUntrusted {
		t.Errorf("under another root: %v", err)
	}
	other := e
	other.token.Fleet = "other"
	if _, err := VerifyToken(v, other.sign(t), at); trust.CodeOf(err) != trust.WrongFleet {
		t.Errorf("of another fleet: %v", err)
	}
	ended := e
	ended.token.Epoch = 2
	if _, err := VerifyToken(v, ended.sign(t), at); codeOf(err) != TokenUntrusted {
		t.Errorf("of another epoch: %v", err)
	}
}

func TestTokenIsChecked(t *testing.T) {
	e := newEnrolment(t)
	for name, change := range map[string]func(k *Token){
		"host":        func(k *Token) { k.Host = "Web/1" },
		"short id":    func(k *Token) { k.ID = "00" },
		"upper id":    func(k *Token) { k.ID = strings.ToUpper(k.ID) },
		"no expiry":   func(k *Token) { k.Expires = 0 },
		"for ever":    func(k *Token) { k.Expires = k.IssuedAt.Add(MaxTokenLife + 1) },
		"no root":     func(k *Token) { k.RootDigest = "" },
		"ends before": func(k *Token) { k.Expires = k.IssuedAt },
		"itself":      func(k *Token) { k.RenamedFrom = k.Host },
		"no name":     func(k *Token) { k.RenamedFrom = "../x" },
	} {
		bad := e.token
		change(&bad)
		if _, err := SignToken(bad, e.signers[trust.RoleEnrol]); codeOf(err) != TokenMalformed {
			t.Errorf("%s: signed, %v", name, err)
		}
		// One that was signed elsewhere is refused here as well.
		bad.Type, bad.Version = TypeToken, 1
		payload := testkit.Value(trust.Canonical(bad))(t)
		env := testkit.Value(trust.Sign(TypeToken, payload, e.signers[trust.RoleEnrol]))(t)
		if _, err := VerifyToken(e.verifier(t), env, clock.FromTime(now)); codeOf(err) != TokenMalformed {
			t.Errorf("%s: accepted, %v", name, err)
		}
	}
}

func TestTokenNamesTheKeys(t *testing.T) {
	key, event, other := newKey(t), newKey(t), newKey(t)
	der := testkit.Value(NewCSR(key))(t)
	csr := testkit.Value(ParseCSR(der))(t)
	named := func(k crypto.Signer) digest.Digest {
		d := testkit.Value(PublicDigest(k.Public()))(t)
		return d
	}
	for _, c := range []struct {
		name  string
		token Token
		event crypto.PublicKey
		ok    bool
	}{
		{"any key", Token{}, event.Public(), true},
		{"both named", Token{KeyDigest: named(key), EventKeyDigest: named(event)}, event.Public(), true},
		{"other certificate key", Token{KeyDigest: named(other)}, event.Public(), false},
		{"other event key", Token{EventKeyDigest: named(other)}, event.Public(), false},
		{"no event key", Token{}, nil, false},
	} {
		if err := c.token.CheckKeys(csr, c.event); (err == nil) != c.ok || (err != nil && codeOf(err) != TokenWrongKey) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func (e enrolment) text(t testing.TB) TokenText {
	return TokenText{Envelope: e.sign(t), Server: "https://127.0.0.1:8443", Root: e.root,
		ServerCA: authority(t, Servers, testFleet).PEM()}
}

func TestTokenText(t *testing.T) {
	e := newEnrolment(t)
	text := e.text(t)
	line := text.String()
	if strings.ContainsAny(line, " \n+/=") || !strings.HasPrefix(line, "steady1.") {
		t.Errorf("not one word to copy: %q", line)
	}
	got := testkit.Value(ParseTokenText("\n " + line + " \n"))(t)
	if d := cmp.Diff(text, got); d != "" {
		t.Error(d)
	}
	token, state, err := got.Begin(clock.FromTime(now))
	testkit.Must(t, err)
	if token.Host != "web-1" || state.Marks[fleet.TypeResolved].Version != 7 || !bytes.Equal(state.Root, e.root) {
		t.Errorf("%+v %+v", token, state.Marks)
	}
	plain := text
	plain.Server = "http://127.0.0.1"
	noCA := text
	noCA.ServerCA = nil
	for name, bad := range map[string]string{
		"empty": "", "cut": line[:len(line)-5], "other prefix": "steady2." + line[8:], "plain http": plain.String(),
		"no CA": noCA.String(), "long": line + strings.Repeat("A", MaxTokenText), "not base64": "steady1.!!!", "not JSON": "steady1.AAAA",
	} {
		if _, err := ParseTokenText(bad); codeOf(err) != TokenMalformed {
			t.Errorf("%s: %v", name, err)
		}
	}
	swapped := text
	swapped.Root = newEnrolment(t).root
	if _, _, err := swapped.Begin(clock.FromTime(now)); codeOf(err) != TokenUntrusted {
		t.Errorf("a token with the root of a stranger: %v", err)
	}
	if _, _, err := text.Begin(clock.FromTime(now).Add(TokenLife)); codeOf(err) != TokenExpired {
		t.Errorf("an expired token: %v", err)
	}
}

func FuzzParseTokenText(f *testing.F) {
	e := newEnrolment(f)
	f.Add(e.text(f).String())
	f.Add("steady1.e30")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTokenText(s)
		if err != nil {
			if codeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		again, err := ParseTokenText(got.String())
		if err != nil || !cmp.Equal(got, again) {
			t.Fatalf("%v: %+v became %+v", err, got, again)
		}
		if _, _, err := got.Begin(0); err != nil && codeOf(err) == "" {
			t.Fatalf("an error without a code: %v", err)
		}
	})
}

func TestNodeTokenMisuse(t *testing.T) {
	e := newEnrolment(t)
	v, at := e.verifier(t), clock.FromTime(now)
	key, other := newKey(t).Public().(ed25519.PublicKey), newKey(t).Public().(ed25519.PublicKey)
	token := NodeToken{Document: e.token.Document, ID: e.token.ID, Node: "gw-1", Expires: at.Add(TokenLife), KeyDigest: testkit.Value(PublicDigest(key))(t)}
	sign := func(k NodeToken, role trust.Role) []byte {
		return testkit.Value(SignNodeToken(k, e.signers[role]))(t)
	}
	env := sign(token, trust.RoleEnrol)
	got := testkit.Value(VerifyNodeToken(v, env, at, "gw-1", key))(t)
	if got.Node != "gw-1" || got.ID != token.ID {
		t.Errorf("%+v", got)
	}
	for what, c := range map[string]struct {
		env  []byte
		at   clock.Instant
		node string
		key  ed25519.PublicKey
		want TokenErrorCode
	}{
		"at its expiry":        {env, at.Add(TokenLife), "gw-1", key, TokenExpired},
		"before it was issued": {env, at.Add(-trust.Slack - 1), "gw-1", key, TokenExpired},
		"of another node":      {env, at, "gw-2", key, TokenWrongNode},
		"of another key":       {env, at, "gw-1", other, TokenWrongKey},
		"signed by release":    {sign(token, trust.RoleRelease), at, "gw-1", key, TokenUntrusted},
		"of a host":            {e.sign(t), at, "web-1", key, TokenUntrusted},
	} {
		if _, err := VerifyNodeToken(v, c.env, c.at, c.node, c.key); codeOf(err) != c.want {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := VerifyToken(v, env, at); codeOf(err) != TokenUntrusted {
		t.Errorf("a host enrols with the token of a node: %v", err)
	}
	for what, change := range map[string]func(*NodeToken){
		"name":     func(k *NodeToken) { k.Node = "../x" },
		"short id": func(k *NodeToken) { k.ID = "00" },
		"for ever": func(k *NodeToken) { k.Expires = k.IssuedAt.Add(MaxTokenLife + 1) },
	} {
		k := token
		change(&k)
		if _, err := SignNodeToken(k, e.signers[trust.RoleEnrol]); codeOf(err) != TokenMalformed {
			t.Errorf("%s: %v", what, err)
		}
	}
	ca := testkit.Value(CreateAuthority(FileKeys{}, t.TempDir(), Servers, testFleet, now))(t)
	text := TokenText{Envelope: env, Server: "https://a:1", ServerCA: ca.PEM(), Root: e.root}
	if got, err := testkit.Value(ParseTokenText(text.String()))(t).CheckNode(at); err != nil || got.Node != "gw-1" {
		t.Errorf("%+v, %v", got, err)
	}
	text.Envelope = e.sign(t)
	if _, err := text.UnverifiedNode(); codeOf(err) != TokenMalformed {
		t.Errorf("the token of a host: %v", err)
	}
}
