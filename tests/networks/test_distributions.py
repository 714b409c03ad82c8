import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from weft.networks import noise
from weft.networks.distributions import (
    Bernoulli,
    Categorical,
    DiagonalNormal,
    MultiCategorical,
    Product,
    TanhNormal,
)

KEY = jax.random.key(3)
sample = jax.jit(lambda distribution, key: distribution.sample(key))
mode = jax.jit(lambda distribution: distribution.mode())
log_prob = jax.jit(lambda distribution, action: distribution.log_prob(action))
entropy = jax.jit(lambda distribution: distribution.entropy())
LOGITS = np.array([[0.3, -1.2, 2.0, 0.0], [5.0, 5.0, -4.0, 1.0]], np.float32)


def test_noise_has_the_bits_of_jax_random():
    np.testing.assert_array_equal(noise.uniform(KEY, (7, 3)), jax.random.uniform(KEY, (7, 3)))
    np.testing.assert_array_equal(noise.normal(KEY, (41,)), jax.random.normal(KEY, (41,)))
    folded, expected = noise.fold_in(KEY, 12345), jax.random.fold_in(KEY, 12345)
    np.testing.assert_array_equal(jax.random.key_data(folded), jax.random.key_data(expected))


def test_categorical_agrees_with_scipy():
    probabilities = scipy.special.softmax(LOGITS, axis=-1)
    distribution = Categorical(jnp.array(LOGITS))
    for action in range(4):
        expected = np.log(probabilities[:, action])
        np.testing.assert_allclose(log_prob(distribution, jnp.full(2, action)), expected, rtol=1e-5)
    np.testing.assert_allclose(entropy(distribution), scipy.stats.entropy(probabilities, axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(mode(distribution), [2, 0])


def test_categorical_draws_as_often_as_it_says():
    draws = np.asarray(sample(Categorical(jnp.broadcast_to(LOGITS[0], (20_000, 4))), KEY))
    counts = np.bincount(draws, minlength=4)
    assert scipy.stats.chisquare(counts, 20_000 * scipy.special.softmax(LOGITS[0].astype(float))).pvalue > 0.01


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_a_forbidden_choice_is_never_drawn_and_has_finite_gradients(allowed):
    mask = np.full(4, -np.inf, np.float32)
    mask[[allowed, 2]] = 0.0
    draws = sample(Categorical(jnp.broadcast_to(LOGITS[0] + mask, (5_000, 4))), KEY)
    assert set(np.asarray(draws).tolist()) == {allowed, 2}

    @jax.jit
    @jax.value_and_grad
    def objective(logits):
        distribution = Categorical(logits + mask)
        return entropy(distribution) + log_prob(distribution, jnp.array(2))

    value, gradient = objective(jnp.array(LOGITS[0]))
    pair = scipy.special.softmax(LOGITS[0, [allowed, 2]])
    assert value == pytest.approx(scipy.stats.entropy(pair) + np.log(pair[1]), rel=1e-5)
    assert np.isfinite(gradient).all()
    assert Categorical(LOGITS[0] + mask).log_prob(jnp.array(({0, 1, 3} - {allowed}).pop())) == -np.inf


def test_multi_categorical_is_independent_categoricals_of_unequal_sizes():
    sizes = np.array([[2, 4], [1, 3]])
    outputs = np.random.default_rng(0).normal(size=(5, 6, 10)).astype(np.float32)
    distribution = MultiCategorical.of(outputs, sizes)
    draws = sample(distribution, KEY)
    assert draws.shape == (5, 6, 2, 2) and draws.dtype == jnp.int32
    assert (np.asarray(draws) < sizes).all() and (np.asarray(draws) >= 0).all()
    parts = [Categorical(part) for part in np.split(outputs, [2, 6, 7], axis=-1)]
    columns = [draws[..., i, j] for i, j in itertools.product(range(2), range(2))]
    expected = sum(log_prob(part, column) for part, column in zip(parts, columns, strict=True))
    np.testing.assert_allclose(log_prob(distribution, draws), expected, rtol=1e-5)
    np.testing.assert_allclose(entropy(distribution), sum(entropy(part) for part in parts), rtol=1e-5)
    np.testing.assert_array_equal(mode(distribution)[..., 1, 1], mode(parts[3]))
    assert np.isfinite(jax.jit(jax.grad(lambda x: MultiCategorical.of(x, sizes).entropy().sum()))(outputs)).all()


def test_bernoulli_agrees_with_scipy():
    logits = jnp.array([[-30.0, -0.5, 0.0, 2.0]])
    distribution = Bernoulli(logits, (2, 2))
    reference = scipy.stats.bernoulli(scipy.special.expit(np.asarray(logits, float)))
    for bits in itertools.product((0, 1), repeat=4):
        action = jnp.array(bits, jnp.int8).reshape(1, 2, 2)
        np.testing.assert_allclose(log_prob(distribution, action), reference.logpmf(bits).sum(), rtol=1e-5)
    np.testing.assert_allclose(entropy(distribution), reference.entropy().sum(), rtol=1e-5)
    np.testing.assert_array_equal(mode(distribution), [[[0, 0], [0, 1]]])
    draws = sample(Bernoulli(jnp.broadcast_to(logits, (10_000, 4)), (4,)), KEY)
    np.testing.assert_allclose(np.mean(draws, axis=0), reference.mean()[0], atol=0.02)


def test_certain_bits_have_no_entropy_and_finite_gradients():
    @jax.jit
    @jax.value_and_grad
    def certain(logits):
        return entropy(Bernoulli(logits, (3,)))

    value, gradient = certain(jnp.array([-jnp.inf, jnp.inf, 200.0]))
    assert value == 0.0 and np.isfinite(gradient).all()


def test_diagonal_normal_agrees_with_scipy():
    mean = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    log_std = jnp.array([-1.0, 0.0, 0.5, 1.0])
    distribution = DiagonalNormal(mean, log_std, (2, 2))
    draws = sample(distribution, KEY)
    assert draws.shape == (3, 5, 2, 2)
    reference = scipy.stats.norm(np.asarray(mean), np.exp(log_std))
    np.testing.assert_allclose(
        log_prob(distribution, draws), reference.logpdf(draws.reshape(3, 5, 4)).sum(-1), rtol=1e-4
    )
    np.testing.assert_allclose(entropy(distribution), reference.entropy().sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(mode(distribution), mean.reshape(3, 5, 2, 2))
    many = sample(DiagonalNormal(jnp.full((20_000, 1), 2.0), jnp.array([0.7]), ()), KEY)
    assert scipy.stats.kstest(np.asarray(many), scipy.stats.norm(2.0, np.exp(0.7)).cdf).pvalue > 0.01


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, 0.0), (1.5, -1.0), (-3.0, 0.5)])
def test_tanh_normal_is_a_density_with_its_entropy(mean, log_std):
    before = np.linspace(mean - 8 * np.exp(log_std), mean + 8 * np.exp(log_std), 4001)
    actions = np.tanh(before)
    inside = np.abs(actions) < 0.9999
    distribution = TanhNormal(jnp.full((len(before), 1), mean), jnp.full((len(before), 1), log_std), (1,))
    expected = scipy.stats.norm(mean, np.exp(log_std)).logpdf(before) - np.log1p(-(actions**2) + 1e-300)
    found = log_prob(distribution, jnp.array(actions[:, None], jnp.float32))
    np.testing.assert_allclose(found[inside], expected[inside], rtol=2e-3, atol=2e-3)
    weights = scipy.stats.norm(mean, np.exp(log_std)).pdf(before)
    slope = 2 * (np.log(2) - before - np.logaddexp(0, -2 * before))
    expected_entropy = -np.trapezoid(weights * (scipy.stats.norm(mean, np.exp(log_std)).logpdf(before) - slope), before)
    assert float(entropy(distribution)[0]) == pytest.approx(expected_entropy, abs=2e-3)


def test_tanh_normal_is_stable_where_tanh_saturates():
    @jax.jit
    @jax.value_and_grad
    def total(mean):
        distribution = TanhNormal(mean, jnp.zeros(2), (2,))
        action, drawn = distribution.sample_and_log_prob(KEY)
        return drawn + log_prob(distribution, jnp.ones(2)) + log_prob(distribution, jax.lax.stop_gradient(action))

    value, gradient = total(jnp.array([30.0, -2.0]))
    assert np.isfinite(value) and np.isfinite(gradient).all()
    distribution = TanhNormal(jnp.array([[0.4, -0.3]]), jnp.array([-1.0, -2.0]), (2,))
    action, drawn = jax.jit(TanhNormal.sample_and_log_prob)(distribution, KEY)
    np.testing.assert_allclose(drawn, log_prob(distribution, action), rtol=1e-4)
    np.testing.assert_array_equal(action, sample(distribution, KEY))


def test_product_adds_up_its_parts_and_draws_them_apart():
    structure = jax.tree.structure({"a": 0, "b": (0, 0)})
    parts = (Categorical(jnp.array(LOGITS)), DiagonalNormal(jnp.zeros((2, 3)), jnp.zeros(3), (3,)))
    product = Product((*parts, parts[1]), structure)
    action = sample(product, KEY)
    expected = log_prob(parts[0], action["a"]) + sum(log_prob(parts[1], leaf) for leaf in action["b"])
    np.testing.assert_allclose(log_prob(product, action), expected, rtol=1e-6)
    np.testing.assert_allclose(entropy(product), entropy(parts[0]) + 2 * entropy(parts[1]), rtol=1e-6)
    assert (action["b"][0] != action["b"][1]).all()
    assert jax.tree.structure(mode(product)) == structure
