package container

import "testing"

func TestCheckImage(t *testing.T) {
	for image, ok := range map[string]bool{
		"alpine": true, "alpine:3.22": true, "docker.io/library/node:22-slim": true, "localhost:5000/a/b_c:x": true,
		"ghcr.io/acme/web@sha256:0123456789012345678901234567890123456789012345678901234567890123": true,
		"": false, "--privileged": false, "-v/:/x": false, "a b": false, "docker-archive:/etc/passwd": false, "oci:/tmp/x:y": false,
		"docker://alpine": false, "dir:/etc": false, "../x": false, "/etc": false, "alpine:": false, "a@sha256:12": false, "{\"name\":1}": false, "a\nb": false,
	} {
		if err := CheckImage(image); (err == nil) != ok {
			t.Errorf("%q: %v", image, err)
		}
	}
}
