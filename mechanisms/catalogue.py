"""The catalogue: what the main table has of this package, where each row comes from, and what is wrong with it.

`epsaudit.mechanisms.registry` makes the mechanisms, and entries of both.
"""

PURE_TO_ZCDP = "differentialprivacy.org, 'Tight RDP & zCDP bounds from pure DP', Theorem 5"
BOUNDED_RANGE = "differentialprivacy.org, 'A better privacy analysis of the exponential mechanism'"
DOWN_SENSITIVITY = "differentialprivacy.org, 'Beyond local sensitivity via down sensitivity'"
INVERSE_SENSITIVITY = "differentialprivacy.org, 'Beyond global sensitivity via inverse sensitivity'"
LOCAL_SENSITIVITY = "'Privately bounding local sensitivity' (2024)"
STABILITY_NOTES = "lecture notes on propose-test-release"
SMOOTH = "Nissim, Raskhodnikova and Smith 2007"
_BLOG = "differentialprivacy.org"
_DP_SNIPER = "Bichsel, Steffen, Bogunovic and Vechev 2021"
_APPROXIMATE = "Whitehouse, Ramdas, Rogers and Wu 2023"
_FILTERS = "Rogers, Roth, Ullman and Vadhan 2016"
_GENERIC = f"{_BLOG}, 'Open problems - How generic can composition results be?'"
_FLIP = "McKenna and Sheldon 2020"
_GHOSH = "Ghosh, Roughgarden and Sundararajan 2012"
_RAPPOR = "Erlingsson, Pihur and Korolova 2014, Theorem"
_STATDP = "Ding, Wang, Wang, Zhang and Kifer 2018, Algorithm"
_TUKEY = "Brown, Gaboardi, Smith, Ullman and Zakynthinou 2021"

# name | source | what is wrong, of the main table's rows in their order; -zcdp and -gdp are further claims of the same
CATALOGUE = f"""
laplace | Dwork et al. 2006, Proposition 1
laplace-zcdp | {PURE_TO_ZCDP}
discrete-laplace | {_GHOSH}
discrete-laplace-zcdp | {PURE_TO_ZCDP}
gaussian | Balle and Wang 2018, Theorem 8
gaussian-gdp | Dong, Roth and Su 2022, Theorem 2.7
gaussian-zcdp | Bun and Steinke 2016, Proposition 1.6
gaussian-vector | {INVERSE_SENSITIVITY}, note 1; Balle and Wang 2018, Theorem 8
gaussian-vector-gdp | Dong, Roth and Su 2022, Theorem 2.7
randomised-response | Warner 1965
randomised-response-zcdp | {PURE_TO_ZCDP}
kary-randomised-response | Kairouz, Bonawitz and Ramage 2016
kary-randomised-response-zcdp | {PURE_TO_ZCDP}
exponential | McSherry and Talwar 2007, Theorem 6
exponential-zcdp | {BOUNDED_RANGE}
exponential-monotone | McSherry and Talwar 2007, monotone utilities
exponential-monotone-zcdp | {BOUNDED_RANGE}
permute-and-flip | {_FLIP}, Theorem 1
permute-and-flip-zcdp | {PURE_TO_ZCDP}
shifted-inverse | {DOWN_SENSITIVITY}, Theorem 4
shifted-inverse-zcdp | {BOUNDED_RANGE}
binary-search-laplace | {DOWN_SENSITIVITY}, noisy_binary_search, steps corrected
binary-search-laplace-zcdp | {DOWN_SENSITIVITY}, noisy_binary_search, steps corrected
binary-search-gaussian | {DOWN_SENSITIVITY}, note 6, steps corrected
binary-search-gaussian-gdp | Dong, Roth and Su 2022, Corollary 3.3
broken/laplace-half-noise | Dwork et al. 2006, misapplied | half the scale
broken/discrete-laplace-half-noise | {_GHOSH}, misapplied | half the scale
broken/gaussian-sensitivity | Balle and Wang 2018, misapplied | sensitivity 1 where a substitution moves the sum by 2
broken/gaussian-vector-per-coordinate | {INVERSE_SENSITIVITY}, note 1, misapplied
    | sensitivity of one coordinate, where the vector moves by sqrt(d) times that
broken/gaussian-classical | Dwork and Roth 2014, Theorem A.1, beyond epsilon = 1
    | sqrt(2 log(1.25/delta)) / epsilon is too small for large epsilon
broken/randomised-response-coin | Warner 1965, misapplied | a coin in place of the lie tells the truth half of the time
broken/kary-randomised-response-forgets-k | Kairouz, Bonawitz and Ramage 2016, misapplied
    | truthful as often as for two answers, where there are four
broken/exponential-factor-two | McSherry and Talwar 2007, misapplied | weight exp(epsilon u), not exp(epsilon u / 2)
broken/exponential-monotone-moving-votes | McSherry and Talwar 2007, misapplied
    | utilities are not monotone where one vote moves
broken/permute-and-flip-factor-two | {_FLIP}, misapplied
    | acceptance exp(epsilon (u - max u)), not half of it
broken/permute-and-flip-bounded-range | {BOUNDED_RANGE}, for another mechanism
    | the exponential mechanism's epsilon^2/8-zCDP
broken/shifted-inverse-factor-two | {DOWN_SENSITIVITY}, Theorem 4, misapplied
    | weight exp(-epsilon loss), not exp(-epsilon loss / 2)
broken/binary-search-published | {DOWN_SENSITIVITY}, noisy_binary_search, as published
    | up to 3 comparisons among 6 outputs, not log2 6 = 2.58
broken/binary-search-half-sigma | {DOWN_SENSITIVITY}, note 6, misapplied | half of sigma
sparse-vector-1 | Lyu, Su and Li 2017, Algorithm 1
sparse-vector-2 | Lyu, Su and Li 2017, Algorithm 2
numerical-sparse-vector | Lyu, Su and Li 2017, Algorithm 7
report-noisy-max-1 | {_STATDP} 5
report-noisy-max-2 | {_STATDP} 6
noisy-histogram | {_STATDP} 9
prefix-sum | {_DP_SNIPER}
laplace-parallel | {_DP_SNIPER}
truncated-geometric | Balcer and Vadhan 2018, GeoSample
rappor | {_RAPPOR} 2
rappor-one-time | {_RAPPOR} 1
snapped-laplace | Mironov 2012, Theorem 1
broken/sparse-vector-3 | Lyu, Su and Li 2017, Algorithm 3 | releases the noisy answer that was compared
broken/sparse-vector-4 | Lyu, Su and Li 2017, Algorithm 4 | noise on queries ignores their number
broken/sparse-vector-5 | Lyu, Su and Li 2017, Algorithm 5 | no noise on queries
broken/sparse-vector-6 | Lyu, Su and Li 2017, Algorithm 6 | does not halt, noise as if it did
broken/sparse-vector-3-and-4 | Lyu, Su and Li 2017, Algorithms 3 and 4 | both broken, and composition not paid
broken/report-noisy-max-3 | {_STATDP} 7 | releases the value of the maximum
broken/report-noisy-max-4 | {_STATDP} 8 | releases the value, with noise that is never negative
broken/noisy-histogram-upside-down | {_STATDP} 10 | scale epsilon
broken/laplace-in-doubles | Mironov 2012, misapplied | low bits show the answer
inverse-median-exponential | {INVERSE_SENSITIVITY}, Theorem 2
inverse-median-exponential-zcdp | {INVERSE_SENSITIVITY}, Theorem 2
inverse-median-permute-and-flip | {INVERSE_SENSITIVITY}, note 7; {_FLIP}, Theorem 1
inverse-median-permute-and-flip-zcdp | {INVERSE_SENSITIVITY}, note 7; {_FLIP}, Theorem 1; {PURE_TO_ZCDP}
inverse-median-noisy-max-laplace | {INVERSE_SENSITIVITY}, note 7; Dwork and Roth 2014, Claim 3.9
inverse-median-noisy-max-laplace-zcdp | {INVERSE_SENSITIVITY}, note 7; Dwork and Roth 2014, Claim 3.9; {PURE_TO_ZCDP}
inverse-median-noisy-max-exponential | {INVERSE_SENSITIVITY}, note 7; Ding et al. 2021
inverse-median-noisy-max-exponential-zcdp | {INVERSE_SENSITIVITY}, note 7; Ding et al. 2021; {PURE_TO_ZCDP}
inverse-median-noisy-max-gumbel | {INVERSE_SENSITIVITY}, note 7; Gumbel noise is the exponential mechanism
inverse-median-noisy-max-gumbel-zcdp | {INVERSE_SENSITIVITY}, note 7; Gumbel noise is the exponential mechanism
inverse-median-gap-max | {INVERSE_SENSITIVITY}, note 7; Chaudhuri, Hsu and Song 2014
inverse-slope | {INVERSE_SENSITIVITY}, Theorem 2; Asi and Duchi 2020; loss in mechanisms/median_regression.py
inverse-slope-zcdp | {INVERSE_SENSITIVITY}, Theorem 2; Asi and Duchi 2020; loss in mechanisms/median_regression.py
noisy-max-laplace | Dwork and Roth 2014, Claim 3.9
noisy-max-laplace-zcdp | Dwork and Roth 2014, Claim 3.9; {PURE_TO_ZCDP}
noisy-max-exponential | Ding et al. 2021
noisy-max-exponential-zcdp | Ding et al. 2021; {PURE_TO_ZCDP}
noisy-max-gumbel | {BOUNDED_RANGE}
noisy-max-gumbel-zcdp | {BOUNDED_RANGE}
gap-max | Chaudhuri, Hsu and Song 2014; Bun, Dwork, Rothblum and Steinke 2018
ptr-median | {STABILITY_NOTES}; Dwork and Lei 2009
ptr-median-reals | {STABILITY_NOTES}; Dwork and Lei 2009
ptr-mode | {STABILITY_NOTES}, mode, corrected
stable-histogram | {STABILITY_NOTES}, stable histograms
stable-histogram-2 | {STABILITY_NOTES}, stable histograms, case 2: a key that appears
smooth-median-cauchy | {SMOOTH}, Lemma 2.7, loss computed
smooth-median-cauchy-zcdp | {SMOOTH}, Lemma 2.7, loss computed; {PURE_TO_ZCDP}
smooth-median-laplace | {SMOOTH}, Lemma 2.9
covariance-aware-mean | Brown, Hopkins and Smith 2023, Algorithms 1 to 3, constants derived anew
tukey-mean | {_TUKEY}, Section 3, constants derived anew
ratio-naive | {LOCAL_SENSITIVITY}
ratio-naive-zcdp | {LOCAL_SENSITIVITY}; {PURE_TO_ZCDP}
ratio-bounded | {LOCAL_SENSITIVITY}, Theorem 2, corrected
ratio-counts | {LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3
ratio-counts-zcdp | {LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3; {PURE_TO_ZCDP}
ratio-counts-substitution | {LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3
ratio-counts-substitution-zcdp | {LOCAL_SENSITIVITY}; Kulesza, Suresh and Wang 2024, Algorithm 3; {PURE_TO_ZCDP}
ratio-by-records | {LOCAL_SENSITIVITY}, Theorem 1 as proven, note 3
ratio-substitution | {LOCAL_SENSITIVITY}, for a known number of records; Dwork et al. 2006, Proposition 1
median-private-bound | {LOCAL_SENSITIVITY}, Theorem 1 as proven; {SMOOTH}
join-size-private-bound | {LOCAL_SENSITIVITY}, Theorem 1 as proven, for any query and any private bound
broken/inverse-median-factor-two | {INVERSE_SENSITIVITY}, Theorem 2, misapplied
    | weight exp(-epsilon loss), not exp(-epsilon loss / 2)
broken/inverse-slope-residuals | {INVERSE_SENSITIVITY}, Theorem 2, misapplied
    | the residuals for losses, which one record moves by more than 1
broken/noisy-max-factor-two | Dwork and Roth 2014, Claim 3.9, for utilities that are not monotone
    | scale 1/epsilon where one utility falls and another rises
broken/noisy-max-bounded-range | {BOUNDED_RANGE}, for another mechanism
    | the exponential mechanism's epsilon^2/8-zCDP; Laplace noise
broken/noisy-max-exponential-bounded-range | {BOUNDED_RANGE}, for another mechanism
    | the exponential mechanism's epsilon^2/8-zCDP; exponential noise
broken/gap-max-at-the-gap | Chaudhuri, Hsu and Song 2014, misapplied | distance one too long
broken/ptr-untested | {STABILITY_NOTES}, step 3 left out | refuses by the exact distance
broken/mode-published | {STABILITY_NOTES}, mode, as published
    | the lead is one more than the distance: delta e^epsilon / 2 in truth
broken/histogram-one-too-low | {STABILITY_NOTES}, stable histograms, misapplied
    | the threshold without its one record more: delta e^epsilon / 2 in truth
broken/histogram-without-threshold | {STABILITY_NOTES}, named there as the mistake to avoid
    | a key that only one record has always shows
broken/median-local-sensitivity-post | {INVERSE_SENSITIVITY}, shown there as a mistake
    | local sensitivity 1 against 0: the scale tells
broken/median-local-sensitivity-notes | {STABILITY_NOTES}, shown there as a mistake
    | local sensitivity 0 against 10^6: the scale tells
broken/covariance-aware-mean-published-test | Brown, Hopkins and Smith 2023, code as published
    | the test's probability falls from far above delta to 0 at once
broken/empirical-mean-and-covariance | {_TUKEY}, Section 1, shown there as a mistake
    | no test: a subspace that all but one share
broken/ratio-bounded-published | {LOCAL_SENSITIVITY}, Theorem 2, code as published
    | a_lower where the proof has a_upper, and the reverse
broken/ratio-bounded-substitution | {LOCAL_SENSITIVITY}, 'no degradation in the substitution relation'
    | the bound is for add/remove: about half of 1 / b for half and half
broken/private-bound-from-below | {LOCAL_SENSITIVITY}, Theorem 1 as stated
    | its condition is reversed: noise at a lower bound on the local sensitivity
broken/join-size-exact-bound | {LOCAL_SENSITIVITY}, shown there as a mistake
    | the local sensitivity itself for a private bound: the scale tells
broken/ratio-tail-published | {LOCAL_SENSITIVITY}, proof of Theorem 2
    | the continuous Laplace law's tails for those of the discrete one
broken/ratio-naive-half-noise | {LOCAL_SENSITIVITY}, misapplied
    | scale 1/epsilon on each of two counts that one record moves
broken/ratio-counts-wrong-adjacency | {LOCAL_SENSITIVITY}, which warns of it
    | the noise for add/remove, claimed under substitution
shifted-inverse-kth-largest | {DOWN_SENSITIVITY}, Theorem 4
shifted-inverse-distinct | {DOWN_SENSITIVITY}, Theorem 4
shifted-inverse-sum | {DOWN_SENSITIVITY}, Theorem 4
binary-search-laplace-sum | {DOWN_SENSITIVITY}, noisy_binary_search, steps corrected
binary-search-laplace-hull | {DOWN_SENSITIVITY}, noisy_binary_search, steps corrected
binary-search-gaussian-total | {DOWN_SENSITIVITY}, note 6, steps corrected
tolerant-search | {DOWN_SENSITIVITY}, note 7; Karp and Kleinberg 2007; proof in docs/explanation/mechanisms.md
tolerant-search-gdp | {DOWN_SENSITIVITY}, note 7; Karp and Kleinberg 2007; proof in docs/explanation/mechanisms.md
bounded-search | {DOWN_SENSITIVITY}, note 7; Dagan and Kur 2022; proof in docs/explanation/mechanisms.md
interior-point | {DOWN_SENSITIVITY}, Theorem 6; Beimel, Nissim and Stemmer 2013; proof in docs/explanation/mechanisms.md
common-prefixes | {DOWN_SENSITIVITY}, Theorem 6; after Bun et al. 2015; proof in docs/explanation/mechanisms.md
shifted-inverse-unrepaired | {DOWN_SENSITIVITY}, Theorem 4 without note 4
    | privacy holds, accuracy fails: |l - tau| where the loss jumps over tau
binary-search-strict-loss | {DOWN_SENSITIVITY}, noisy_binary_search, misapplied
    | privacy holds, accuracy fails: the loss of Equation A in place of Equation 4
broken/binary-search-published-10 | {DOWN_SENSITIVITY}, noisy_binary_search, as published
    | up to 4 comparisons among 10 outputs, not log2 10
broken/binary-search-published-18 | {DOWN_SENSITIVITY}, noisy_binary_search, as published
    | up to 5 comparisons among 18 outputs, not log2 18
broken/binary-search-published-34 | {DOWN_SENSITIVITY}, noisy_binary_search, as published
    | up to 6 comparisons among 34 outputs, not log2 34
broken/tolerant-search-counted-once | {DOWN_SENSITIVITY}, note 7, misapplied | 24 comparisons are made, noise is for 2
broken/bounded-search-counted-once | {DOWN_SENSITIVITY}, note 7, misapplied | 6 comparisons are made, noise is for 1
broken/common-prefixes-without-margin | Bun et al. 2015, misapplied
    | points that a neighbour may not have are as likely as beta allows, not delta
broken/common-prefixes-by-quality | Bun et al. 2015, misapplied
    | points are chosen by their quality, whatever their prefix
broken/interior-point-untested | Beimel, Nissim and Stemmer 2013, misapplied
    | the best block is taken however small its lead is
composed-response | {_BLOG}, 'Composition basics', Basic Composition
repeated-response | Kairouz, Oh and Viswanath 2015, Theorem 3.3
filtered-response | {_FILTERS}
filter-approx | {_FILTERS}
filter-approx-advanced | {_APPROXIMATE}, Theorem 1
filter-zcdp | Feldman and Zrnic 2021
filter-approx-zcdp | {_APPROXIMATE}
filter-gdp | Smith and Thakurta 2022
filter-renyi | Feldman and Zrnic 2021
odometer-pure | {_FILTERS}
odometer-zcdp | {_APPROXIMATE}
odometer-approx-zcdp | {_APPROXIMATE}
odometer-gdp | {_APPROXIMATE}, Gaussian DP taken as zCDP
odometer-renyi | Feldman and Zrnic 2021
sub-sessions | Vadhan and Wang 2021
partitioned-sessions | {_GENERIC}, the diagram of Tumult Analytics; Haney et al. 2023
sparse-vector-sessions | Vadhan and Wang 2021; Lyu, Su and Li 2017, Algorithm 1
shuffled-response | {_BLOG}, 'Privacy Doona'; Feldman, McMillan and Talwar 2022
shuffled-response-malicious | {_BLOG}, 'Privacy Doona', note 2; Feldman, McMillan and Talwar 2022
hadamard-response | Acharya, Sun and Zhang 2019
hadamard-response-zcdp | Acharya, Sun and Zhang 2019; {PURE_TO_ZCDP}
group-counts | {_BLOG}, 'Open problem - Better privacy guarantees for larger groups', Algorithm 1
asinh-counts | {_BLOG}, 'Open problem', its alternative path; proof in docs/explanation/group-wise-privacy.md
asinh-counts-gdp | {_BLOG}, 'Open problem', its alternative path; proof in docs/explanation/group-wise-privacy.md
asinh-counts-10 | {_BLOG}, 'Open problem', a group of 10; proof in docs/explanation/group-wise-privacy.md
broken/filter-late | {_FILTERS}, misapplied | checks the budget after answering
broken/filter-late-zcdp | Feldman and Zrnic 2021, misapplied | checks the budget after answering
broken/odometer-gdp-late | {_APPROXIMATE}, misapplied | reads the odometer before the request, not with it
broken/repeated-response-limit | Dong, Roth and Su 2022, central limit theorem, misapplied
    | the limit for many answers, claimed of three
broken/filter-privacy-loss | {_GENERIC}, if read so
    | composes what was granted as if it had been fixed before the answers
broken/sub-sessions-forgetful | Vadhan and Wang 2021, misapplied | takes only the first share off the budget
broken/partitioned-sessions-moves | {_GENERIC}, misapplied | a record that moves is in two parts, each pays once
broken/sparse-vector-sessions-paid-once | Vadhan and Wang 2021, misapplied
    | pays for a mechanism once, however many sessions of it have a secret of their own
broken/hadamard-response-coin | Acharya, Sun and Zhang 2019, misapplied | any symbol in place of another one
broken/shuffled-response-dropouts | {_BLOG}, 'Privacy Doona'; Feldman, McMillan and Talwar 2022, misapplied
    | counts nine in ten users who drop out
broken/asinh-counts-by-slope | docs/explanation/group-wise-privacy.md, misapplied
    | the slope at the group's size in place of the step that a record makes
broken/group-counts-as-gaussian | {_BLOG}, 'Open problem - Better privacy guarantees for larger groups', if read so
    | a Gaussian's loss, where the scale of the noise tells the size, too
broken/laplace-bounded-range | {BOUNDED_RANGE}, for another mechanism | the exponential mechanism's epsilon^2/8-zCDP
"""
