package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestParseKey_ReadsEveryWayToWrite32Bytes(t *testing.T) {
	// Bytes whose base64 contains the two digits in which the alphabets differ.
	raw := bytes.Repeat([]byte{0xfb, 0xff}, 16)
	for name, text := range map[string]string{
		"hex":                  hex.EncodeToString(raw),
		"upper-case hex":       strings.ToUpper(hex.EncodeToString(raw)),
		"hex in a file":        hex.EncodeToString(raw) + "\n",
		"base64":               base64.StdEncoding.EncodeToString(raw),
		"base64 without =":     base64.RawStdEncoding.EncodeToString(raw),
		"url base64":           base64.URLEncoding.EncodeToString(raw),
		"url base64 without =": base64.RawURLEncoding.EncodeToString(raw),
	} {
		key, err := ParseKey(text)
		if err != nil || key.Hex() != hex.EncodeToString(raw) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseKey_RefusesWithAHintAndWithoutQuoting(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "0 bytes long",
		"correct horse battery":  "neither hex nor base64",
		strings.Repeat("ab", 16): "16 bytes long",
		strings.Repeat("ab", 33): "33 bytes long",
		strings.Repeat("00", 32): "all zeros",
		strings.Repeat("zz", 16): "24 bytes long",
	} {
		_, err := ParseKey(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "openssl rand -hex 32") {
			t.Errorf("ParseKey(%q): %v, want it to say %q and how to make a key", text, err, want)
		}
		if err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("ParseKey(%q) quotes it: %v", text, err)
		}
	}
}

func TestNewKey_SurvivesItsKeyFile(t *testing.T) {
	key := NewKey()
	again, err := ParseKey(key.Hex() + "\n")
	if err != nil || again != key {
		t.Fatalf("reading the key back: %v", err)
	}
	if NewKey() == key {
		t.Fatal("two new keys are the same")
	}
}

func TestKey_NeverShowsItself(t *testing.T) {
	key := NewKey()
	settings := struct{ Key Key }{key}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb+"\n", key, settings)
	}
	fmt.Fprintln(&out, key.String())
	slog.New(slog.NewTextHandler(&out, nil)).Info("text", "key", key, "settings", settings)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("json", "key", key, "settings", settings)
	json.NewEncoder(&out).Encode(settings)

	first := key.secret[0:4]
	for _, form := range []string{"%x", "%X", "%d", "%#v"} {
		shown := strings.Trim(fmt.Sprintf(form, first), "[]")
		if strings.Contains(out.String(), shown) {
			t.Errorf("the key shows as %s in:\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "[secret key]") {
		t.Errorf("no placeholder in:\n%s", out.String())
	}
}

func TestFingerprint_NamesTheKeyAndNothingElse(t *testing.T) {
	key, other := NewKey(), NewKey()
	if key.Fingerprint() == other.Fingerprint() {
		t.Fatal("two keys have the same fingerprint")
	}
	if len(key.Fingerprint()) != 16 || strings.Contains(key.Hex(), key.Fingerprint()) {
		t.Fatalf("the fingerprint is %q", key.Fingerprint())
	}
}

// Stored data depends on these values: a change would lock installations out.
func TestFormat_DoesNotChange(t *testing.T) {
	key, err := ParseKey(strings.Repeat("0123456789abcdef", 4))
	if err != nil {
		t.Fatal(err)
	}
	if got := key.Fingerprint(); got != "dcd9992bb5966787" {
		t.Errorf("fingerprint %s", got)
	}
	if got := hex.EncodeToString(key.Derive("token")); got != "957902183117b5e3b769e0af9754806529e41306efc1ba7b8bd26c7798e9855c" {
		t.Errorf("derived %s", got)
	}
	plaintext, err := key.Open("s1.dcd9992bb5966787.UVzRH37kvAowLJIYiTle0RfmQXZJ5X72VfAhHEanspRMXuc", "cluster_secret:1")
	if err != nil || string(plaintext) != "hunter2" {
		t.Errorf("opened %q, %v", plaintext, err)
	}
}

func TestDerive_DiffersByPurposeAndKey(t *testing.T) {
	key := NewKey()
	a, b := key.Derive("a"), key.Derive("b")
	if len(a) != 32 || !bytes.Equal(a, key.Derive("a")) {
		t.Fatal("a purpose must always give the same 32 bytes")
	}
	if bytes.Equal(a, b) || bytes.Equal(a, NewKey().Derive("a")) || bytes.Equal(a, key.secret[:]) {
		t.Fatal("purposes and keys must give unrelated bytes")
	}
}

func TestSeal_OpensToTheSameBytes(t *testing.T) {
	key := NewKey()
	for _, plaintext := range [][]byte{nil, []byte("x"), []byte("naïve \x00 bytes \xff"), bytes.Repeat([]byte("a"), 1<<20)} {
		sealed, err := key.Seal(plaintext, "row:1")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Trim(sealed, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("the sealed text has unsafe characters: %.60q", sealed)
		}
		opened, err := key.Open(sealed, "row:1")
		if err != nil || !bytes.Equal(opened, plaintext) {
			t.Errorf("%d bytes: opened to %d, %v", len(plaintext), len(opened), err)
		}
	}
}

func TestSeal_GivesOtherTextEveryTime(t *testing.T) {
	key := NewKey()
	a, _ := key.Seal([]byte("same"), "row:1")
	b, _ := key.Seal([]byte("same"), "row:1")
	if a == b {
		t.Fatal("equal secrets can be recognized by their sealed texts")
	}
}

func TestOpen_ReportsWhyNot(t *testing.T) {
	key, other := NewKey(), NewKey()
	sealed, err := key.Seal([]byte("secret"), "row:1")
	if err != nil {
		t.Fatal(err)
	}
	end := sealed[len(sealed)-5:]
	changed := strings.TrimSuffix(sealed, end) + map[bool]string{true: "B", false: "A"}[end[0] == 'A'] + end[1:]
	for name, c := range map[string]struct {
		key             Key
		sealed, context string
		want            string
	}{
		"another row":      {key, sealed, "row:2", "moved here from another place"},
		"changed":          {key, changed, "row:1", "was changed"},
		"cut":              {key, sealed[:len(sealed)-30], "row:1", "was changed"},
		"cut to nothing":   {key, "s1." + key.Fingerprint() + ".", "row:1", "was changed"},
		"not base64":       {key, sealed + "!", "row:1", "not base64"},
		"plain text":       {key, "secret", "row:1", "not a sealed value"},
		"empty":            {key, "", "row:1", "not a sealed value"},
		"a later version":  {key, "s2" + sealed[2:], "row:1", "not a sealed value"},
		"another key":      {other, sealed, "row:1", "sealed with the key " + key.Fingerprint() + ", and this installation's key is " + other.Fingerprint()},
		"no key to open":   {Key{}, "s1." + Key{}.Fingerprint() + ".AAAA", "row:1", "no secret key"},
		"a forged key id":  {other, "s1." + other.Fingerprint() + sealed[len("s1.")+16:], "row:1", "was changed"},
		"nothing but dots": {key, "..", "row:1", "not a sealed value"},
	} {
		plaintext, err := c.key.Open(c.sealed, c.context)
		if err == nil || plaintext != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v; want an error that says %q", name, plaintext, err, c.want)
		}
	}
}

func TestSeal_RefusesTheZeroKey(t *testing.T) {
	if sealed, err := (Key{}).Seal([]byte("secret"), "row:1"); err == nil {
		t.Fatalf("sealed as %q", sealed)
	}
}

func FuzzOpen(f *testing.F) {
	key := NewKey()
	sealed, _ := key.Seal([]byte("secret"), "row:1")
	f.Add(sealed)
	f.Add("s1." + key.Fingerprint() + ".AAAA")
	f.Fuzz(func(t *testing.T, stranger string) {
		if plaintext, err := key.Open(stranger, "row:1"); err == nil && stranger != sealed && string(plaintext) != "secret" {
			t.Fatalf("%q opens to %q", stranger, plaintext)
		}
	})
}
