package stacks

// ScheduledText is the statement that lists the jobs of a queue.
const ScheduledText = scheduledText
