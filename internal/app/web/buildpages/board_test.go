package buildpages

import "testing"

func TestEmbedded_KeepsToItself(t *testing.T) {
	const safe = `<h1 id="top">One</h1><h5>Five</h5><a href="#top" rel="nofollow">up</a> id=&#34;x&#34;<a href="https://ci.test/#top">out</a>`
	const want = `<h3 id="n-top">One</h3><h6>Five</h6><a href="#n-top" rel="nofollow">up</a> id=&#34;x&#34;<a href="https://ci.test/#top">out</a>`
	if got := embedded(safe, "n-"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
