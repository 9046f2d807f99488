package identity

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// FuzzVerifyToken signs arbitrary payloads with the right key: what is taken
// keeps every bound, and errors have a code.
func FuzzVerifyToken(f *testing.F) {
	e := newEnrolment(f)
	v, at := e.verifier(f), clock.FromTime(now)
	parsed := testkit.Value(trust.ParseEnvelope(e.sign(f)))(f)
	f.Add(parsed.Payload)
	f.Add(bytes.Replace(parsed.Payload, []byte(`"host":"web-1"`), []byte(`"host":"../x"`), 1))
	f.Add(bytes.Replace(parsed.Payload, []byte(`"version":1`), []byte(`"version":1,"Version":2`), 1))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		env, err := trust.Sign(TypeToken, payload, e.signers[trust.RoleEnrol])
		if err != nil {
			return
		}
		got, err := VerifyToken(v, env, at)
		if err != nil {
			if codeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if life := got.Expires.Sub(got.IssuedAt); got.Fleet != testFleet || got.Epoch != 1 || life <= 0 || life > MaxTokenLife || got.Expires <= at || len(got.ID) != 32 || got.RootDigest == "" {
			t.Fatalf("taken: %+v", got)
		}
		if _, err := HostURI(got.Fleet, got.Host); err != nil {
			t.Fatalf("taken for a host that no certificate can name: %v", err)
		}
	})
}

// FuzzParseCSR: a request that is taken is signed by a key of a kind that may
// have a certificate.
func FuzzParseCSR(f *testing.F) {
	key := newKey(f)
	der := testkit.Value(NewCSR(key))(f)
	f.Add(der)
	f.Add(der[:len(der)-1])
	f.Add([]byte{0x30, 0x80})
	f.Fuzz(func(t *testing.T, raw []byte) {
		csr, err := ParseCSR(raw)
		if err != nil {
			return
		}
		if len(raw) > 16<<10 || csr.CheckSignature() != nil || checkPublic(csr.PublicKey) != nil {
			t.Fatalf("took a request of %d bytes with a %T", len(raw), csr.PublicKey)
		}
		if _, err := PublicDigest(csr.PublicKey); err != nil {
			t.Fatalf("a key that cannot be named: %v", err)
		}
	})
}

// FuzzParseCertificate: what is taken is exactly one certificate, and names a
// host of a fleet only by the one URI of that host.
func FuzzParseCertificate(f *testing.F) {
	e := newEnrolment(f)
	line := testkit.Value(ParseTokenText(e.text(f).String()))(f)
	f.Add(line.ServerCA)
	f.Add(append(bytes.Clone(line.ServerCA), line.ServerCA...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		cert, err := ParseCertificate(raw)
		if err != nil {
			return
		}
		again, err := ParseCertificate(pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: cert.Raw}))
		if err != nil || !again.Equal(cert) || len(raw) > maxFile {
			t.Fatalf("it does not read back: %v", err)
		}
		if host, err := HostOf(cert, testFleet); err == nil {
			if u, err := HostURI(testFleet, host); err != nil || cert.URIs[0].String() != u.String() {
				t.Fatalf("%s names host %q", cert.URIs[0], host)
			}
		}
	})
}

// FuzzParseKey: a key that is taken signs, reads back the same, and a file of it
// is taken exactly where its bytes are and nobody else may read it.
func FuzzParseKey(f *testing.F) {
	key := newKey(f)
	der := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(f)
	good := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Add(bytes.Replace(good, []byte("PRIVATE"), []byte("PUBLIC"), 2))
	file := filepath.Join(f.TempDir(), "key")
	f.Fuzz(func(t *testing.T, raw []byte) {
		key, err := ParseKey(raw)
		if len(raw) < 1024 {
			testkit.Must(t, os.WriteFile(file, raw, 0o600))
			if _, fileErr := LoadKey(file); (fileErr == nil) != (err == nil) {
				t.Fatalf("bytes: %v, file: %v", err, fileErr)
			}
		}
		if err != nil {
			return
		}
		testkit.Must(t, checkPublic(key.Public()))
		der, err := x509.MarshalPKCS8PrivateKey(key)
		testkit.Must(t, err)
		again, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}))
		if err != nil {
			t.Fatalf("it does not read back: %v", err)
		}
		a, _ := PublicDigest(key.Public())
		if b, _ := PublicDigest(again.Public()); a != b {
			t.Fatalf("key %s became %s", a, b)
		}
	})
}

// FuzzParsePublicKey: what is taken is one Ed25519 key, which reads back the same;
// a private key never is.
func FuzzParsePublicKey(f *testing.F) {
	key := newKey(f)
	good := testkit.Value(EncodePublicKey(key.Public().(ed25519.PublicKey)))(f)
	der := testkit.Value(x509.MarshalPKCS8PrivateKey(key))(f)
	private := pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der})
	f.Add(good)
	f.Add(private)
	f.Add(append(bytes.Clone(good), private...))
	f.Add(bytes.ReplaceAll(private, []byte("PRIVATE"), []byte("PUBLIC")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		pub, err := ParsePublicKey(raw)
		if err != nil {
			return
		}
		if _, err := ParseKey(raw); err == nil || len(pub) != ed25519.PublicKeySize {
			t.Fatalf("took %q", raw)
		}
		again, err := EncodePublicKey(pub)
		testkit.Must(t, err)
		if back, err := ParsePublicKey(again); err != nil || !back.Equal(pub) {
			t.Fatalf("it does not read back: %v", err)
		}
	})
}

// FuzzVerifyHead: no signature but the one that was made holds, for no other
// host, fleet, incarnation or head.
func FuzzVerifyHead(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	pub := key.Public().(ed25519.PublicKey)
	head := Chain{Seq: 7}
	sig := testkit.Value(SignHead(key, testFleet, "web-1", 2, head))(f)
	f.Add(testFleet, "web-1", uint64(2), uint64(7), sig)
	f.Add(testFleet, "web-2", uint64(2), uint64(7), sig)
	f.Add(testFleet+"w", "eb-1", uint64(2), uint64(7), sig)
	f.Add(testFleet, "web-1", uint64(2), uint64(7), sig[:63])
	f.Fuzz(func(t *testing.T, fleetName, host string, incarnation, seq uint64, offered []byte) {
		err := VerifyHead(pub, fleetName, host, incarnation, Chain{Seq: seq}, offered)
		same := fleetName == testFleet && host == "web-1" && incarnation == 2 && seq == 7 && bytes.Equal(offered, sig)
		if (err == nil) != same {
			t.Fatalf("%q %q %d %d %x: %v", fleetName, host, incarnation, seq, offered, err)
		}
	})
}

// FuzzVerifyNodeToken is FuzzVerifyToken for the tokens of nodes.
func FuzzVerifyNodeToken(f *testing.F) {
	e := newEnrolment(f)
	v, at, key := e.verifier(f), clock.FromTime(now), newKey(f).Public().(ed25519.PublicKey)
	env := testkit.Value(SignNodeToken(NodeToken{Document: e.token.Document, ID: e.token.ID, Node: "gw-1", Expires: at.Add(TokenLife)}, e.signers[trust.RoleEnrol]))(f)
	parsed := testkit.Value(trust.ParseEnvelope(env))(f)
	f.Add(parsed.Payload)
	f.Add(bytes.Replace(parsed.Payload, []byte(`"node":"gw-1"`), []byte(`"node":"../x"`), 1))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		env, err := trust.Sign(TypeNodeToken, payload, e.signers[trust.RoleEnrol])
		if err != nil {
			return
		}
		got, err := VerifyNodeToken(v, env, at, "gw-1", key)
		if err != nil {
			if codeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if life := got.Expires.Sub(got.IssuedAt); got.Fleet != testFleet || got.Epoch != 1 || life <= 0 || life > MaxTokenLife || got.Expires <= at || len(got.ID) != 32 || got.Node != "gw-1" {
			t.Fatalf("taken: %+v", got)
		}
	})
}
