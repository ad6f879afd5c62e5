package interop

// The tokens of world.
const (
	ada     = "svcua_ada"     // an administrator of acme; every scope
	hurried = "svcua_hurried" // Ada's for busy, which has a low rate limit
	bo      = "svcua_bo"      // a member of acme; every scope
	reader  = "svcua_reader"  // Ada's, with only the scope read_pipelines
	spare   = "svcua_spare"   // Ada's, for a test to revoke
	expired = "svcua_expired" // Ada's, no longer valid
	cy      = "svcua_cy"      // an administrator of rival who is not a member of acme; every scope
)

// adaPassword is what Ada signs in with on pages.
const adaPassword = "correct horse battery staple"

// The fixed ids of world.
const (
	adaID      = "0190c0de-0000-7000-8000-000000000001"
	boID       = "0190c0de-0000-7000-8000-000000000002"
	clusterID  = "0190c0de-0000-7000-8000-0000000000c1"
	queueID    = "0190c0de-0000-7000-8000-0000000000d1"
	everyoneID = "0190c0de-0000-7000-8000-0000000000e1"
	helloID    = "0190c0de-0000-7000-8000-0000000000a1"
	unknownID  = "0190c0de-0000-7000-8000-00000000dead"
)

// world is the organization file that every server starts with.
const world = `
organizations:
  - slug: acme
    name: Acme Inc
    features: {teams: true}
    members:
      - email: ada@acme.test
        id: ` + adaID + `
        name: Ada
        role: admin
        password: ` + adaPassword + `
        access_tokens:
          - {description: everything, token: ` + ada + `, scopes: ["*"], expires_at: 2099-01-01T00:00:00Z}
          - {description: reader, token: ` + reader + `, scopes: [read_pipelines]}
          - {description: spare, token: ` + spare + `, scopes: ["*"]}
          - {description: expired, token: ` + expired + `, scopes: ["*"], expires_at: 2020-01-01T00:00:00Z}
      - email: bo@acme.test
        id: ` + boID + `
        name: Bo
        role: member
        access_tokens:
          - {description: everything, token: ` + bo + `, scopes: ["*"]}
    teams:
      - {name: Everyone, slug: everyone, id: ` + everyoneID + `, members: [ada@acme.test]}
    clusters:
      - name: Default
        id: ` + clusterID + `
        default: true
        queues:
          - {key: default, id: ` + queueID + `, default: true}
        agent_tokens:
          - {description: boot, token: svcct_acme}
    pipelines:
      - slug: hello
        id: ` + helloID + `
        name: Hello
        repository: https://git.example.test/acme/hello.git
        cluster: Default
        configuration: |
          steps:
            - command: echo hello
  - slug: busy
    name: Busy Ltd
    limits: {rest_requests_per_second: 2}
    members:
      - email: ada@acme.test
        role: admin
        access_tokens:
          - {description: hurried, token: ` + hurried + `, scopes: ["*"]}
  - slug: rival
    name: Rival Ltd
    members:
      - email: cy@rival.test
        name: Cy
        role: admin
        access_tokens:
          - {description: everything, token: ` + cy + `, scopes: ["*"]}
`
