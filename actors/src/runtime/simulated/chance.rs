//! A reproducible random generator: a seed gives the same numbers on every machine and with every library version
//! (SplitMix64, which is fixed).

#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to but excluding `end`.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        let end = u64::try_from(end.max(1)).unwrap_or(1);
        i64::try_from(self.next() % end).unwrap_or(0)
    }

    /// A number from `first` to `last`, inclusive.
    pub(crate) fn between(&mut self, first: i64, last: i64) -> i64 {
        first + self.below(last - first + 1)
    }

    /// True with this probability in thousandths.
    pub(crate) fn happens(&mut self, permille: i64) -> bool {
        self.below(1_000) < permille
    }

    pub(crate) fn pick<T: Copy>(&mut self, some: &[T]) -> T {
        let last = i64::try_from(some.len()).unwrap_or(1);
        some[usize::try_from(self.below(last)).unwrap_or(0)]
    }

    /// A new generator that depends on this one's present state only.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

#[test]
fn the_numbers_of_a_seed_are_the_same_for_ever() {
    let mut chance = Chance::new(1_234_567);
    let numbers = [chance.next(), chance.next(), chance.next()];
    // The first values of the reference implementation for that seed.
    assert_eq!(
        numbers,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}
