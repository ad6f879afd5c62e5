// The tests whose results are uploaded: one of each kind.
const assert = require('assert')

describe('Cart', () => {
  it('adds an item', () => {})
  it('removes an item', () => assert.strictEqual(1, 2, 'the cart still has the item'))
  it('empties itself')
  describe('with a voucher', () => {
    it('is cheaper', () => {})
  })
})
