package notifications

import "stackyard/internal/domain/events"

// ping is sent when a webhook is created or its settings change. Every webhook gets it; listing it is allowed.
const ping = "ping"

// eventNames lists the valid values of events settings.
var eventNames = func() names {
	list := names{ping}
	for _, name := range events.All {
		list = append(list, string(name))
	}
	return list
}()
