package pages

import "html/template"

// icons are paths on a square of 24 units, stroked in the color of the surrounding text.
var icons = map[string]string{
	"key":      `<circle cx="8" cy="15" r="4.5"/><path d="m11.2 11.8 8.3-8.3M15.5 7.5l3 3M13 10l2 2"/>`,
	"terminal": `<rect x="3" y="4.5" width="18" height="15" rx="2.5"/><path d="m7 9.5 3 2.5-3 2.5M12.5 15H17"/>`,
	"shield":   `<path d="M12 3.2 5 5.8v5.4c0 4.3 2.9 7.6 7 9.6 4.1-2 7-5.3 7-9.6V5.8z"/><path d="m9 12 2.2 2.2L15.2 10"/>`,
	"lock":     `<rect x="5" y="10.5" width="14" height="10" rx="2.5"/><path d="M8 10.5V8a4 4 0 0 1 8 0v2.5M12 14.5v2"/>`,
	"screen":   `<rect x="3" y="4" width="18" height="12.5" rx="2.5"/><path d="M8.5 20.5h7M12 16.5v4"/>`,
	"book":     `<path d="M12 6.5C10.3 5.2 8 4.5 4 4.5v13.7c4 0 6.3.7 8 2 1.7-1.3 4-2 8-2V4.5c-4 0-6.3.7-8 2zM12 6.5v13.7"/>`,
	"grid":     `<rect x="4" y="4" width="6.5" height="6.5" rx="1.5"/><rect x="13.5" y="4" width="6.5" height="6.5" rx="1.5"/><rect x="4" y="13.5" width="6.5" height="6.5" rx="1.5"/><path d="M16.75 13.5v6.5M13.5 16.75H20"/>`,
	"check":    `<circle cx="12" cy="12" r="8.5"/><path d="m8.5 12.2 2.5 2.5 4.7-5"/>`,
	"cross":    `<circle cx="12" cy="12" r="8.5"/><path d="m9.2 9.2 5.6 5.6M14.8 9.2l-5.6 5.6"/>`,
	"alert":    `<path d="M12 4 3.2 19h17.6zM12 10v4M12 16.6v.1"/>`,
	"clock":    `<circle cx="12" cy="12" r="8.5"/><path d="M12 7.5V12l3 2"/>`,
	"plus":     `<path d="M12 5.5v13M5.5 12h13"/>`,
	"pen":      `<path d="m5 19 1-4L16.5 4.5l3 3L9 18z"/><path d="m14 7 3 3"/>`,
	"eye":      `<path d="M2.5 12C5 7.5 8.3 5.5 12 5.5s7 2 9.5 6.5c-2.5 4.5-5.8 6.5-9.5 6.5S5 16.5 2.5 12z"/><circle cx="12" cy="12" r="2.8"/>`,
	"run":      `<circle cx="12" cy="12" r="8.5" stroke-dasharray="40 14"/><path d="m10.5 9 4.5 3-4.5 3z"/>`,
	"dots":     `<circle cx="12" cy="12" r="8.5" stroke-dasharray="2.5 3.4"/><path d="M8.5 12h.1M12 12h.1M15.5 12h.1"/>`,
	"slash":    `<circle cx="12" cy="12" r="8.5"/><path d="m6.2 6.2 11.6 11.6"/>`,
	"skip":     `<circle cx="12" cy="12" r="8.5"/><path d="m9 9 3.5 3L9 15M15 9v6"/>`,
	"hand":     `<circle cx="12" cy="12" r="8.5"/><path d="M10 9v6M14 9v6"/>`,
	"branch":   `<circle cx="7" cy="5.5" r="2"/><circle cx="7" cy="18.5" r="2"/><circle cx="17" cy="8.5" r="2"/><path d="M7 7.5v9M17 10.5c0 4-6 3-10 6"/>`,
	"commit":   `<circle cx="12" cy="12" r="3.5"/><path d="M3 12h5.5M15.5 12H21"/>`,
	"person":   `<circle cx="12" cy="8.5" r="3.5"/><path d="M5.5 20c.6-4 3-6 6.5-6s5.9 2 6.5 6"/>`,
	"again":    `<path d="M19 12a7 7 0 1 1-2.2-5.1M19.5 4v4h-4"/>`,
	"arrow":    `<path d="M5 12h13M13 6.5l5.5 5.5-5.5 5.5"/>`,
	"file":     `<path d="M7 3.5h7l4 4v13H7zM14 3.5v4h4"/>`,
	"stack":    `<path d="m12 4 8 4-8 4-8-4zM4.5 12l7.5 4 7.5-4M4.5 16l7.5 4 7.5-4"/>`,
	"chevron":  `<path d="m9 6 6 6-6 6"/>`,
	"bell":     `<path d="M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 2h-15zM10 20.5h4"/>`,
	"search":   `<circle cx="10.5" cy="10.5" r="6.5"/><path d="m15.5 15.5 5 5"/>`,
	"house":    `<path d="m4 11.2 8-6.7 8 6.7M6.5 9.5V19.5h11V9.5M10 19.5v-5h4v5"/>`,
}

// Icon returns a decorative icon: the text beside it has the meaning.
func Icon(name string) template.HTML {
	drawing, ok := icons[name]
	if !ok {
		panic("pages: no icon " + name)
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">` + drawing + `</svg>`)
}
