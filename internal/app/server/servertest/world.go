package servertest

// The tokens of World.
const (
	// Ada is an administrator of acme and may use every scope.
	Ada = "svcua_ada"
	// Bo is a member of acme without permissions, with every scope.
	Bo = "svcua_bo"
	// Cy is an administrator of rival with every scope, and has no access to acme.
	Cy = "svcua_cy"
	// AcmeAgent is an agent token of acme's cluster Default.
	AcmeAgent = "svcct_acme"
)

// The fixed ids of World.
const (
	AdaID          = "0190c0de-0000-7000-8000-000000000001"
	BoID           = "0190c0de-0000-7000-8000-000000000002"
	CyID           = "0190c0de-0000-7000-8000-000000000003"
	AcmeClusterID  = "0190c0de-0000-7000-8000-0000000000c1"
	AcmeQueueID    = "0190c0de-0000-7000-8000-0000000000d1"
	RivalClusterID = "0190c0de-0000-7000-8000-0000000000c2"
	AcmeTeamID     = "0190c0de-0000-7000-8000-0000000000e1"
	AcmePipelineID = "0190c0de-0000-7000-8000-0000000000a1"
)

// World is an organization file with two unrelated organizations.
const World = `
organizations:
  - slug: acme
    name: Acme Inc
    members:
      - email: ada@acme.test
        id: ` + AdaID + `
        name: Ada
        role: admin
        access_tokens:
          - {description: everything, token: ` + Ada + `, scopes: ["*"]}
      - email: bo@acme.test
        id: ` + BoID + `
        name: Bo
        role: member
        access_tokens:
          - {description: everything, token: ` + Bo + `, scopes: ["*"]}
    teams:
      - {name: Everyone, slug: everyone, id: ` + AcmeTeamID + `, members: [ada@acme.test]}
    clusters:
      - name: Default
        id: ` + AcmeClusterID + `
        default: true
        queues:
          - {key: default, id: ` + AcmeQueueID + `, default: true}
        agent_tokens:
          - {description: boot, token: ` + AcmeAgent + `}
    pipelines:
      - slug: hello
        id: ` + AcmePipelineID + `
        name: Hello
        repository: https://git.example.test/acme/hello.git
        cluster: Default
        configuration: |
          steps:
            - command: echo hello
  - slug: rival
    name: Rival Ltd
    members:
      - email: cy@rival.test
        id: ` + CyID + `
        name: Cy
        role: admin
        access_tokens:
          - {description: everything, token: ` + Cy + `, scopes: ["*"]}
    clusters:
      - name: Default
        id: ` + RivalClusterID + `
        default: true
        queues:
          - {key: default, default: true}
`
