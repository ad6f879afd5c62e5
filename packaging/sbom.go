package main

import (
	"debug/buildinfo"
	"os"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// describe writes the software bill of materials of a platform's binary, from what the binary itself says.
func (r *release) describe(p platform) error {
	info, err := buildinfo.ReadFile(r.binary(p))
	if err != nil {
		return err
	}
	var parts []cyclonedx.Component
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		parts = append(parts, cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url})
	}
	standard := "pkg:golang/std@" + info.GoVersion
	parts = append(parts, cyclonedx.Component{BOMRef: standard, Type: cyclonedx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion, PackageURL: standard})
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: "stackyard", Type: cyclonedx.ComponentTypeApplication, Name: "stackyard", Version: r.version},
	}
	bom.Components = &parts
	f, err := os.Create(r.binary(p) + ".cdx.json")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return f.Close()
}
